import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { call } from "../../api.js";
import { distance } from "../../format.js";
import { Check } from "../../ui/check.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";
import { PageLink } from "../../ui/page-link.js";
import { useData } from "../../use-data.js";

export interface RetryProps {
  readonly delivery: DeliveryJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Makes one attempt at once; says before what that means where the delivery stands. */
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
  const title = isDelivered ? "Send it once more?" : "Retry now";
  if (obstacle !== null) {
    return (
      <Dialog title={title} onClose={onClose}>
        <NoRetry obstacle={obstacle} account={delivery.account ?? ""} onLeave={onClose} />
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <Form verb={isDelivered ? "Send again" : "Retry now"} send={retry} onCancel={onClose}>
        <p>{whatFollows(delivery)}</p>
        {delivery.state === "permanently_failed" && (
          <Check isOn={restartSchedule} onChange={setRestart}>
            Start the schedule again: a failure is followed by all retries, as for a new delivery.
          </Check>
        )}
      </Form>
    </Dialog>
  );
}

type Obstacle = "disabled" | "deleted";

/** Why the endpoint gets nothing now, whatever the delivery failed of. Null: nothing is known against it. */
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
  if (obstacle === "deleted") return <p role="status">The endpoint was deleted. Nothing can be sent to it any more.</p>;
  return (
    <p role="status">
      Nothing is sent to an endpoint that is disabled.{" "}
      <PageLink page="webhooks" query={{ account }} onFollow={onLeave}>
        Enable the endpoint first
      </PageLink>
    </p>
  );
}

function whatFollows({ state, nextAttemptAt }: DeliveryJson): string {
  switch (state) {
    case "delivered":
      return "It has arrived already. The receiver gets the same event with the same id again.";
    case "awaiting_retry":
      return `One attempt is made at once. It takes the place of the retry that is due ${distance(nextAttemptAt, Date.now())}.`;
    default:
      return "One attempt is made at once. If it fails, the delivery has failed for good again.";
  }
}
