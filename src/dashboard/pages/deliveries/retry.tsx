import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { call } from "../../lib/api.js";
import { distance } from "../../lib/format.js";
import { PageLink } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Form } from "../../ui/form.js";

export interface RetryProps {
  readonly delivery: DeliveryJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Requests one attempt now, after explaining its effect on the delivery. */
export function Retry({ delivery, onDone, onClose }: RetryProps) {
  const [restartSchedule, setRestart] = useState(false);
  const obstacle = useObstacle(delivery);
  const isDelivered = delivery.state === "delivered";
  const retry = async (): Promise<void> => {
    await call("unified.webhook.v1.DeliveryService/RetryDelivery", {
      id: delivery.id ?? "",
      restartSchedule,
      resendDelivered: isDelivered,
    });
    onDone();
    onClose();
  };
  const title = isDelivered ? "Resend this delivery?" : "Retry now";
  if (obstacle !== null) {
    return (
      <Dialog title={title} onClose={onClose}>
        <NoRetry obstacle={obstacle} account={delivery.account ?? ""} onLeave={onClose} />
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <Form verb={isDelivered ? "Resend" : "Retry now"} send={retry} onCancel={onClose}>
        <p>{effectOf(delivery)}</p>
        {delivery.state === "permanently_failed" && (
          <Check isOn={restartSchedule} onChange={setRestart}>
            Restart the retry schedule, as for a new delivery.
          </Check>
        )}
      </Form>
    </Dialog>
  );
}

type Obstacle = "disabled" | "deleted";

/** Why the endpoint cannot receive deliveries now; null if it can, or while unknown. */
function useObstacle({ account = "", endpointId = "" }: DeliveryJson): Obstacle | null {
  const { value } = useData(
    (signal) => call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account }, signal),
    [account],
  );
  if (value === null) return null;
  const endpoint = value.webhookEndpoints?.find(({ id }) => id === endpointId);
  if (endpoint === undefined) return "deleted";
  return endpoint.status === "disabled" ? "disabled" : null;
}

interface NoRetryProps {
  readonly obstacle: Obstacle;
  readonly account: string;
  readonly onLeave: () => void;
}

function NoRetry({ obstacle, account, onLeave }: NoRetryProps) {
  if (obstacle === "deleted") return <p role="status">The endpoint was deleted, so this delivery cannot be sent.</p>;
  return (
    <p role="status">
      The endpoint is disabled.{" "}
      <PageLink page="webhooks" query={{ account }} onFollow={onLeave}>
        Enable the endpoint first
      </PageLink>
    </p>
  );
}

function effectOf({ state, nextAttemptAt }: DeliveryJson): string {
  switch (state) {
    case "delivered":
      return "This delivery succeeded. The receiver will get the same event with the same ID again.";
    case "awaiting_retry":
      return `Sends one attempt now. It replaces the retry due ${distance(nextAttemptAt, Date.now())}.`;
    default:
      return "Sends one attempt now. If it fails, the delivery is permanently failed again.";
  }
}
