import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { RotateApiKeyResponseJson } from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { call } from "../../api.js";
import { time } from "../../format.js";
import { toInstant } from "../../local-time.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { OverlapField, usualOverlap } from "../../ui/overlap.js";
import { NewSecret } from "./new-secret.js";

export interface RotateKeyProps {
  readonly apiKey: ApiKeyJson;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

/** Makes a successor, beside which the key works on for a while, and shows its secret this once. */
export function RotateKey({ apiKey, onMade, onClose }: RotateKeyProps) {
  const [overlap, setOverlap] = useState(usualOverlap);
  const [expiry, setExpiry] = useState("");
  const [made, setMade] = useState<RotateApiKeyResponseJson | null>(null);
  const rotate = async (): Promise<void> => {
    const expiresAt = toInstant(expiry);
    const request = { id: apiKey.id ?? "", overlap, ...(expiresAt === null ? {} : { expiresAt }) };
    setMade(await call("unified.admin.v1.ApiKeyService/RotateApiKey", request));
    onMade();
  };
  if (made !== null) {
    return (
      <Dialog title={`Successor of “${apiKey.name ?? ""}”`} onClose={onClose}>
        <NewSecret secret={made.secret ?? ""} onClose={onClose}>
          <p>The old key stops on {time(made.oldExpiresAt)}.</p>
        </NewSecret>
      </Dialog>
    );
  }
  return (
    <Dialog title={`Rotate “${apiKey.name ?? ""}”`} onClose={onClose}>
      <Form verb="Rotate" send={rotate} onCancel={onClose} makesSecret>
        <p>A new key takes over the name, scope, account, models and limits of this one.</p>
        <OverlapField
          label="The old key works on"
          hint="Time to replace it wherever it is used."
          value={overlap}
          onChange={setOverlap}
        />
        <Field label="The new key expires" name="expires_at" hint="Empty: never.">
          {(ids) => (
            <input {...ids} type="datetime-local" value={expiry} onInput={(event) => setExpiry(textOf(event))} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
