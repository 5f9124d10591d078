import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { call } from "../../api.js";
import { distance } from "../../format.js";
import { Check } from "../../ui/check.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";

/** Whether somebody can have it sent by hand now. */
export function canRetry({ state, purged = false }: DeliveryJson): boolean {
  return !purged && state !== "delivery_attempted" && state !== "pending";
}

export interface RetryProps {
  readonly delivery: DeliveryJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Makes one attempt at once; says before what that means where the delivery stands. */
export function Retry({ delivery, onDone, onClose }: RetryProps) {
  const [restartSchedule, setRestart] = useState(false);
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
  return (
    <Dialog title={isDelivered ? "Send it once more?" : "Retry now"} onClose={onClose}>
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
