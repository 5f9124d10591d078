import { useState } from "preact/hooks";
import type { SendTestEventResponseJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { call } from "../../lib/api.js";
import { milliseconds } from "../../lib/format.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge } from "../../ui/feedback.js";
import { Field, Form, textOf } from "../../ui/form.js";
import type { EndpointDialogProps } from "./events.js";
import { outcomeOf } from "./events.js";

/** Sends a sample event and shows the receiver's response. */
export function TestEvent({ endpoint, onDone, onClose }: EndpointDialogProps) {
  const { id = "", account = "", events = [] } = endpoint;
  const [eventType, setEventType] = useState(events[0] ?? "");
  const [answer, setAnswer] = useState<SendTestEventResponseJson | null>(null);
  const send = async (): Promise<void> => {
    setAnswer(null);
    const request = { id, account, eventType };
    setAnswer(await call("unified.webhook.v1.WebhookEndpointService/SendTestEvent", request));
    onDone();
  };
  return (
    <Dialog title="Send a test event" onClose={onClose}>
      <Form verb={answer === null ? "Send" : "Send again"} send={send}>
        <p>
          Sends a signed sample event with <code>"test": true</code> to <code>{endpoint.url}</code> now. It is not
          retried and does not appear under Deliveries.
        </p>
        <Field label="Event" name="event_type">
          {(ids) => (
            <select {...ids} value={eventType} onChange={(event) => setEventType(textOf(event))}>
              {events.map((type) => (
                <option key={type}>{type}</option>
              ))}
            </select>
          )}
        </Field>
        <div class="stack" aria-live="polite">
          {answer !== null && <Result result={answer} />}
        </div>
      </Form>
    </Dialog>
  );
}

function Result({ result }: { readonly result: SendTestEventResponseJson }) {
  const { delivered = false, latencyMs, response = "", payload = "" } = result;
  return (
    <>
      <div class="row">
        <Badge tone={delivered ? "good" : "bad"}>{delivered ? "Delivered" : "Failed"}</Badge>
        <span>
          {outcomeOf(result)} after {milliseconds(latencyMs)}
        </span>
      </div>
      {response !== "" && (
        <>
          <h3>Response body</h3>
          <pre>{response}</pre>
        </>
      )}
      <details>
        <summary>Request body</summary>
        <pre>{payload}</pre>
      </details>
    </>
  );
}
