import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { RotateApiKeyResponseJson } from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { call } from "../../lib/api.js";
import { time, toInstant } from "../../lib/format.js";
import { prefix } from "../../lib/location.js";
import { CodeBlock } from "../../ui/code.js";
import { Dialog } from "../../ui/dialog.js";
import { Form, Select, TextField } from "../../ui/form.js";
import { ExpiryPicker } from "../../ui/picker/expiry.js";
import { useAccountChoices, useModelChoices } from "../../ui/picker/known.js";
import { ManyPicker, Picker } from "../../ui/picker/picker.js";
import { defaultOverlap, OverlapField, SecretOnce } from "../../ui/secret.js";
import { createRequest, draftOf, emptyDraft, type KeyDraft, modelsOf, updateRequest } from "./api-key.js";

export interface NewKeyProps {
  /** Prefills the account field. */
  readonly account: string;
  readonly onCreated: () => void;
  readonly onClose: () => void;
}

/** Creates a key and shows its secret once. */
export function NewKey({ account, onCreated, onClose }: NewKeyProps) {
  const [draft, setDraft] = useState(() => emptyDraft(account));
  const [secret, setSecret] = useState<string | null>(null);
  const accounts = useAccountChoices();
  const create = async (): Promise<void> => {
    const created = await call("unified.admin.v1.ApiKeyService/CreateApiKey", createRequest(draft));
    setSecret(created.secret ?? "");
    onCreated();
  };
  return (
    <Dialog title={secret === null ? "Create a key" : `Key “${draft.name.trim()}”`} onClose={onClose}>
      {secret === null ? (
        <Form verb="Create key" send={create} onCancel={onClose} makesSecret>
          <ScopeField scope={draft.scope} onChange={(scope) => setDraft({ ...draft, scope })} />
          <KeyFields draft={draft} onChange={setDraft} />
          <Picker
            label="Account"
            name="account"
            hint="Type a name that does not exist yet to create it: lower-case letters, digits and hyphens."
            none="default"
            acceptsOther
            choices={accounts}
            value={draft.account}
            onChange={(chosen) => setDraft({ ...draft, account: chosen })}
          />
        </Form>
      ) : (
        <NewSecret secret={secret} onClose={onClose} />
      )}
    </Dialog>
  );
}

const scopes = {
  SCOPE_READ_WRITE: "Read and write: all endpoints, including inference",
  SCOPE_READ: "Read only: models and usage",
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

export interface EditKeyProps {
  readonly apiKey: ApiKeyJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Edits a key's name, models, limits, priority and expiry. Scope and account cannot change. */
export function EditKey({ apiKey, onDone, onClose }: EditKeyProps) {
  const before = draftOf(apiKey);
  const [draft, setDraft] = useState(before);
  const save = async (): Promise<void> => {
    await call("unified.admin.v1.ApiKeyService/UpdateApiKey", updateRequest(apiKey.id ?? "", before, draft));
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Edit “${apiKey.name ?? ""}”`} onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <KeyFields draft={draft} onChange={setDraft} />
      </Form>
    </Dialog>
  );
}

export interface RotateKeyProps {
  readonly apiKey: ApiKeyJson;
  readonly onCreated: () => void;
  readonly onClose: () => void;
}

/** Creates a replacement key and shows its secret once. The old key stays valid for the chosen time. */
export function RotateKey({ apiKey, onCreated, onClose }: RotateKeyProps) {
  const [overlap, setOverlap] = useState(defaultOverlap);
  const [expiry, setExpiry] = useState("");
  const [created, setCreated] = useState<RotateApiKeyResponseJson | null>(null);
  const rotate = async (): Promise<void> => {
    const expiresAt = toInstant(expiry);
    const request = { id: apiKey.id ?? "", overlap, ...(expiresAt === null ? {} : { expiresAt }) };
    setCreated(await call("unified.admin.v1.ApiKeyService/RotateApiKey", request));
    onCreated();
  };
  if (created !== null) {
    return (
      <Dialog title={`New key “${apiKey.name ?? ""}”`} onClose={onClose}>
        <NewSecret secret={created.secret ?? ""} onClose={onClose}>
          <p>The old key expires on {time(created.oldExpiresAt)}.</p>
        </NewSecret>
      </Dialog>
    );
  }
  return (
    <Dialog title={`Rotate “${apiKey.name ?? ""}”`} onClose={onClose}>
      <Form verb="Rotate" send={rotate} onCancel={onClose} makesSecret>
        <p>The new key has the same name, scope, account, models, limits and priority.</p>
        <OverlapField
          label="Old key expires"
          hint="Replace the old key everywhere before then."
          value={overlap}
          onChange={setOverlap}
        />
        <ExpiryPicker label="New key expires" name="expires_at" value={expiry} onChange={setExpiry} />
      </Form>
    </Dialog>
  );
}

/** Order of waiting requests. */
const priorities = {
  PRIORITY_INTERACTIVE: "Interactive: first when requests wait",
  PRIORITY_DEFAULT: "Default",
  PRIORITY_BATCH: "Batch: last when requests wait",
} as const;

interface KeyFieldsProps {
  readonly draft: KeyDraft;
  readonly onChange: (draft: KeyDraft) => void;
}

/** The fields shared by creating and editing a key. */
function KeyFields({ draft, onChange }: KeyFieldsProps) {
  const models = useModelChoices();
  const typed = (field: keyof KeyDraft) => ({
    value: draft[field],
    onChange: (text: string) => onChange({ ...draft, [field]: text }),
  });
  const limit = (label: string, name: string, field: keyof KeyDraft) => (
    <TextField label={label} name={name} type="number" min={1} step={1} {...typed(field)} />
  );
  return (
    <>
      <TextField
        label="Name"
        name="name"
        hint="For example, the app that uses the key."
        required
        maxLength={128}
        {...typed("name")}
      />
      <ManyPicker
        label="Allowed models"
        name="models"
        hint="A prefix ending in * allows all models that begin with it."
        none="All models"
        acceptsOther
        choices={models}
        values={modelsOf(draft)}
        onChange={(chosen) => onChange({ ...draft, models: chosen.join("\n") })}
      />
      <fieldset>
        <legend>Limits (leave empty for the configured defaults)</legend>
        <div class="key-limits">
          {limit("Requests per minute", "requests_per_minute", "requestsPerMinute")}
          {limit("Tokens per minute", "tokens_per_minute", "tokensPerMinute")}
          {limit("Max concurrency", "concurrency", "concurrency")}
        </div>
      </fieldset>
      <Select
        label="Priority"
        titles={priorities}
        value={draft.priority === "PRIORITY_UNSPECIFIED" ? "PRIORITY_DEFAULT" : draft.priority}
        onChoose={(priority) => onChange({ ...draft, priority })}
      />
      <ExpiryPicker
        label="Expires"
        name="expires_at"
        hint="Requests are rejected after this time."
        {...typed("expiresAt")}
      />
    </>
  );
}

interface NewSecretProps {
  readonly secret: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** A new key's secret, with a command to try it. */
function NewSecret({ secret, onClose, children }: NewSecretProps) {
  const trial = `curl ${window.location.origin}${prefix}/v1/models -H "Authorization: Bearer ${secret}"`;
  return (
    <SecretOnce label="API key" secret={secret} onClose={onClose}>
      {children}
      <CodeBlock title="Try it" code={trial} copyLabel="Copy command" />
    </SecretOnce>
  );
}
