import { useState } from "preact/hooks";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { createRequest, emptyDraft, type KeyDraft } from "./key-draft.js";
import { KeyFields } from "./key-fields.js";
import { NewSecret } from "./new-secret.js";

export interface NewKeyProps {
  /** Filled in as its account. */
  readonly account: string;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

/** Makes a key and shows its secret, which stands nowhere else and is gone with this window. */
export function NewKey({ account, onMade, onClose }: NewKeyProps) {
  const [draft, setDraft] = useState(() => emptyDraft(account));
  const [secret, setSecret] = useState<string | null>(null);
  const create = async (): Promise<void> => {
    const made = await call("unified.admin.v1.ApiKeyService/CreateApiKey", createRequest(draft));
    setSecret(made.secret ?? "");
    onMade();
  };
  return (
    <Dialog title={secret === null ? "Create a key" : `Key “${draft.name.trim()}”`} onClose={onClose}>
      {secret === null ? (
        <Form verb="Create key" send={create} onCancel={onClose} makesSecret>
          <ScopeField scope={draft.scope} onChange={(scope) => setDraft({ ...draft, scope })} />
          <KeyFields draft={draft} onChange={setDraft} />
          <Field label="Account" name="account" hint="Made by first use: a-z, 0-9 and -. Empty: default.">
            {(ids) => (
              <input
                {...ids}
                type="text"
                maxLength={64}
                autocomplete="off"
                spellcheck={false}
                value={draft.account}
                onInput={(event) => setDraft({ ...draft, account: textOf(event) })}
              />
            )}
          </Field>
        </Form>
      ) : (
        <NewSecret secret={secret} onClose={onClose} />
      )}
    </Dialog>
  );
}

const scopes = {
  SCOPE_READ_WRITE: "Read and write: everything, inference included",
  SCOPE_READ: "Read: models and usage, nothing that costs",
} as const;

function ScopeField({
  scope,
  onChange,
}: {
  readonly scope: KeyDraft["scope"];
  readonly onChange: (scope: KeyDraft["scope"]) => void;
}) {
  return (
    <fieldset>
      <legend>Scope</legend>
      {(["SCOPE_READ_WRITE", "SCOPE_READ"] as const).map((each) => (
        <label key={each} class="check">
          <input type="radio" name="scope" checked={each === scope} onChange={() => onChange(each)} />
          <span>{scopes[each]}</span>
        </label>
      ))}
    </fieldset>
  );
}
