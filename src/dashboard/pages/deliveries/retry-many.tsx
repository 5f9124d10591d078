import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Form } from "../../ui/form.js";

export interface RetryManyProps {
  /** The selected deliveries of one page of the list. */
  readonly deliveries: readonly DeliveryJson[];
  /** Called when the service has queued or rejected all attempts. */
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Requests one attempt for each of several deliveries. */
export function RetryMany({ deliveries, onDone, onClose }: RetryManyProps) {
  const [restartSchedule, setRestart] = useState(false);
  const [result, setResult] = useState<RetryResult | null>(null);
  const count = wholeNumber(deliveries.length);
  const retry = async (): Promise<void> => {
    setResult(await retryEach(deliveries, restartSchedule));
    onDone();
  };
  return (
    <Dialog title={deliveries.length === 1 ? "Retry 1 delivery" : `Retry ${count} deliveries`} onClose={onClose}>
      {result === null ? (
        <Form verb="Retry now" send={retry} onCancel={onClose}>
          <p>Sends one attempt of each now. A delivery whose attempt fails is permanently failed again.</p>
          <Check isOn={restartSchedule} onChange={setRestart}>
            Restart the retry schedule of those that failed permanently.
          </Check>
        </Form>
      ) : (
        <Result result={result} onClose={onClose} />
      )}
    </Dialog>
  );
}

interface RetryResult {
  readonly queued: number;
  /** Numbers of rejected deliveries by the service's message. */
  readonly rejected: ReadonlyMap<string, number>;
}

const concurrentMax = 4;

async function retryEach(deliveries: readonly DeliveryJson[], restartSchedule: boolean): Promise<RetryResult> {
  const left = [...deliveries];
  const rejected = new Map<string, number>();
  let queued = 0;
  const work = async (): Promise<void> => {
    for (let delivery = left.shift(); delivery !== undefined; delivery = left.shift()) {
      const restarts = restartSchedule && delivery.state === "permanently_failed";
      const request = { id: delivery.id ?? "", restartSchedule: restarts };
      try {
        await call("unified.webhook.v1.DeliveryService/RetryDelivery", request);
        queued += 1;
      } catch (thrown) {
        const message = thrown instanceof Error ? thrown.message : String(thrown);
        rejected.set(message, (rejected.get(message) ?? 0) + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrentMax }, work));
  return { queued, rejected };
}

/** The most different messages that are shown: messages that contain an id all differ. */
const messagesMax = 5;

function Result({
  result: { queued, rejected },
  onClose,
}: {
  readonly result: RetryResult;
  readonly onClose: () => void;
}) {
  const failures = [...rejected];
  const total = failures.reduce((sum, [, count]) => sum + count, 0);
  return (
    <div class="stack">
      <p role="status">
        {wholeNumber(queued)} queued, {wholeNumber(total)} rejected.
      </p>
      {failures.length > 0 && (
        <ul>
          {failures.slice(0, messagesMax).map(([message, count]) => (
            <li key={message}>
              {wholeNumber(count)} × {message}
            </li>
          ))}
          {failures.length > messagesMax && <li>and {wholeNumber(failures.length - messagesMax)} other reasons</li>}
        </ul>
      )}
      <footer>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </div>
  );
}
