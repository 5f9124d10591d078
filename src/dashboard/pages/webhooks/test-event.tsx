import { useState } from "preact/hooks";
import type { SendTestEventResponseJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { call } from "../../api.js";
import { milliseconds } from "../../format.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge } from "../../ui/feedback.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { answerWords } from "../deliveries/delivery-words.js";
import type { EndpointWindowProps } from "./endpoint-windows.js";

/** Posts a sample and shows what the receiver says to it. */
export function TestEvent({ endpoint, onDone, onClose }: EndpointWindowProps) {
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
          A signed sample with <code>"test": true</code> goes to <code>{endpoint.url}</code> at once. It is not retried
          and stands in no list.
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
          {answer !== null && <Answer answer={answer} />}
        </div>
      </Form>
    </Dialog>
  );
}

function Answer({ answer }: { readonly answer: SendTestEventResponseJson }) {
  const { delivered = false, latencyMs, response = "", payload = "" } = answer;
  return (
    <>
      <div class="row">
        <Badge tone={delivered ? "good" : "bad"}>{delivered ? "delivered" : "failed"}</Badge>
        <span>
          {answerWords(answer)} after {milliseconds(latencyMs)}
        </span>
      </div>
      {response !== "" && (
        <>
          <h3>What the receiver answered</h3>
          <pre>{response}</pre>
        </>
      )}
      <details>
        <summary>What was posted</summary>
        <pre>{payload}</pre>
      </details>
    </>
  );
}
