import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";
import { draftOf, updateRequest } from "./key-draft.js";
import { KeyFields } from "./key-fields.js";

export interface ChangeKeyProps {
  readonly apiKey: ApiKeyJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Changes what a key is called and may do. Its scope and account stay: they belong to who holds it. */
export function ChangeKey({ apiKey, onDone, onClose }: ChangeKeyProps) {
  const before = draftOf(apiKey);
  const [draft, setDraft] = useState(before);
  const save = async (): Promise<void> => {
    await call("unified.admin.v1.ApiKeyService/UpdateApiKey", updateRequest(apiKey.id ?? "", before, draft));
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Change “${apiKey.name ?? ""}”`} onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <KeyFields draft={draft} onChange={setDraft} />
      </Form>
    </Dialog>
  );
}
