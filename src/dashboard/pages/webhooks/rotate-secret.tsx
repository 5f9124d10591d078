import { useState } from "preact/hooks";
import type { RotateWebhookSecretResponseJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { call } from "../../api.js";
import { time } from "../../format.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";
import { OverlapField, usualOverlap } from "../../ui/overlap.js";
import type { EndpointWindowProps } from "./endpoint-windows.js";
import { SigningSecret } from "./signing-secret.js";

/** Makes a new signing secret; for a while deliveries carry a signature of each. */
export function RotateSecret({ endpoint: { id = "", account = "" }, onDone, onClose }: EndpointWindowProps) {
  const [overlap, setOverlap] = useState(usualOverlap);
  const [made, setMade] = useState<RotateWebhookSecretResponseJson | null>(null);
  const rotate = async (): Promise<void> => {
    const request = { id, account, overlap };
    setMade(await call("unified.webhook.v1.WebhookEndpointService/RotateWebhookSecret", request));
    onDone();
  };
  if (made !== null) {
    return (
      <Dialog title="New signing secret" onClose={onClose}>
        <div class="stack">
          <p>The old one signs beside it until {time(made.oldExpiresAt)}.</p>
          <SigningSecret secret={made.secret ?? ""} onClose={onClose} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Rotate the signing secret" onClose={onClose}>
      <Form verb="Rotate" send={rotate} onCancel={onClose} makesSecret>
        <OverlapField
          label="The old secret signs on"
          hint="Until then every delivery carries two signatures, and a receiver may know either secret."
          value={overlap}
          onChange={setOverlap}
        />
      </Form>
    </Dialog>
  );
}
