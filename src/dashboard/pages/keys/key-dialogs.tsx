import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { RotateApiKeyResponseJson } from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { call } from "../../lib/api.js";
import { time, toInstant } from "../../lib/format.js";
import { prefix } from "../../lib/location.js";
import { Copy } from "../../ui/code.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { defaultOverlap, OverlapField, SecretOnce } from "../../ui/secret.js";
import { createRequest, draftOf, emptyDraft, type KeyDraft, updateRequest } from "./api-key.js";

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
          <Field
            label="Account"
            name="account"
            hint="Created automatically, defaults to default. Lower-case letters, digits and hyphens."
          >
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

/** Edits a key's name, models, limits and expiry. Scope and account cannot change. */
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
        <p>The new key has the same name, scope, account, models and limits.</p>
        <OverlapField
          label="Old key expires"
          hint="Replace the old key everywhere before then."
          value={overlap}
          onChange={setOverlap}
        />
        <Field label="New key expires" name="expires_at" hint="Leave empty for no expiry.">
          {(ids) => (
            <input {...ids} type="datetime-local" value={expiry} onInput={(event) => setExpiry(textOf(event))} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}

interface KeyFieldsProps {
  readonly draft: KeyDraft;
  readonly onChange: (draft: KeyDraft) => void;
}

/** The fields shared by creating and editing a key. */
function KeyFields({ draft, onChange }: KeyFieldsProps) {
  const set = (field: keyof KeyDraft) => (event: Event) => onChange({ ...draft, [field]: textOf(event) });
  return (
    <>
      <Field label="Name" name="name" hint="For example, the app that uses the key.">
        {(ids) => (
          <input
            {...ids}
            type="text"
            required
            maxLength={128}
            autocomplete="off"
            value={draft.name}
            onInput={set("name")}
          />
        )}
      </Field>
      <Field
        label="Allowed models"
        name="models"
        hint="One per line: model IDs, or prefixes ending in *. Leave empty to allow all."
      >
        {(ids) => <textarea {...ids} rows={2} spellcheck={false} value={draft.models} onInput={set("models")} />}
      </Field>
      <fieldset>
        <legend>Limits (leave empty for the configured defaults)</legend>
        <div class="key-limits">
          <WholeNumber label="Requests per minute" value={draft.requestsPerMinute} onInput={set("requestsPerMinute")} />
          <WholeNumber label="Tokens per minute" value={draft.tokensPerMinute} onInput={set("tokensPerMinute")} />
          <WholeNumber label="Max concurrency" value={draft.concurrency} onInput={set("concurrency")} />
        </div>
      </fieldset>
      <Field label="Expires" name="expires_at" hint="Requests are rejected after this time. Leave empty for no expiry.">
        {(ids) => <input {...ids} type="datetime-local" value={draft.expiresAt} onInput={set("expiresAt")} />}
      </Field>
    </>
  );
}

interface WholeNumberProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (event: Event) => void;
}

function WholeNumber({ label, value, onInput }: WholeNumberProps) {
  return (
    <Field label={label}>
      {(ids) => <input {...ids} type="number" min={1} step={1} inputMode="numeric" value={value} onInput={onInput} />}
    </Field>
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
      <div class="stack">
        <div class="row spread">
          <span>Try it:</span>
          <Copy text={trial} label="Copy command" />
        </div>
        <pre>{trial}</pre>
      </div>
    </SecretOnce>
  );
}
