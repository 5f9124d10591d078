import { useState } from "preact/hooks";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { type EndpointDraft, EndpointFields } from "./endpoint-fields.js";
import type { EndpointWindowProps } from "./endpoint-windows.js";

/** Changes where events go, which, and how many at once. */
export function ChangeEndpoint({ endpoint, onDone, onClose }: EndpointWindowProps) {
  const { id = "", account = "", url = "", events = [], description = "" } = endpoint;
  const [draft, setDraft] = useState<EndpointDraft>({ url, events, description });
  const [atOnce, setAtOnce] = useState(String(endpoint.maxInFlight ?? ""));
  const save = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/UpdateWebhookEndpoint", {
      id,
      account,
      ...(draft.url === url ? {} : { url: draft.url.trim() }),
      events: { values: [...draft.events] },
      description: draft.description,
      maxInFlight: Number(atOnce),
    });
    onDone();
    onClose();
  };
  return (
    <Dialog title="Change endpoint" onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <EndpointFields draft={draft} onChange={setDraft} />
        <Field label="Deliveries at once" name="max_in_flight" hint="1 to 64.">
          {(ids) => (
            <input
              {...ids}
              type="number"
              required
              min={1}
              max={64}
              value={atOnce}
              onInput={(event) => setAtOnce(textOf(event))}
            />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
