import { useState } from "preact/hooks";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";
import { type EndpointDraft, EndpointFields } from "./endpoint-fields.js";
import { SigningSecret } from "./signing-secret.js";

export interface AddEndpointProps {
  readonly account: string;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

/** Registers a receiver and shows the secret that signs what it gets, this once. */
export function AddEndpoint({ account, onMade, onClose }: AddEndpointProps) {
  const [draft, setDraft] = useState<EndpointDraft>({
    url: "",
    events: ["request.completed", "request.failed"],
    description: "",
  });
  const [secret, setSecret] = useState<string | null>(null);
  const add = async (): Promise<void> => {
    const { url, events, description } = draft;
    const webhookEndpoint = { account, url: url.trim(), events: [...events], description };
    const made = await call("unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", { webhookEndpoint });
    setSecret(made.secret ?? "");
    onMade();
  };
  return (
    <Dialog title={secret === null ? "Add an endpoint" : "Signing secret"} onClose={onClose}>
      {secret === null ? (
        <Form verb="Add endpoint" send={add} onCancel={onClose} makesSecret>
          <p>
            It gets the events of the account <strong>{account || "default"}</strong> that happen from now on.
          </p>
          <EndpointFields draft={draft} onChange={setDraft} />
        </Form>
      ) : (
        <SigningSecret secret={secret} onClose={onClose} />
      )}
    </Dialog>
  );
}
