import { useState } from "preact/hooks";
import type { UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import type { CheckUpstreamResponseJson } from "../../../../gen/unified/admin/v1/upstream_service_pb.js";
import { call } from "../../lib/api.js";
import { Confirm, useAction } from "../../ui/action.js";
import { Dialog } from "../../ui/dialog.js";
import { Problem } from "../../ui/feedback.js";
import { Field, Form, Select, textOf } from "../../ui/form.js";
import { CheckResult } from "./check.js";
import { emptyDraft, isStored, kindTitles, linesOf, type UpstreamDraft } from "./upstream.js";

export interface UpstreamDialogProps {
  readonly upstream: UpstreamJson;
  /** Called when the upstream has changed. */
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Adds an upstream; tests it before on request. */
export function AddUpstream({ onDone, onClose }: Omit<UpstreamDialogProps, "upstream">) {
  const [draft, setDraft] = useState(emptyDraft);
  const [result, setResult] = useState<CheckUpstreamResponseJson | null>(null);
  const change = (part: Partial<UpstreamDraft>): void => {
    setDraft({ ...draft, ...part });
    // The result is of another server or key then.
    if (part.name === undefined && part.models === undefined) setResult(null);
  };
  const check = async (): Promise<CheckUpstreamResponseJson> => {
    const { url, kind, key } = draft;
    return await call("unified.admin.v1.UpstreamService/CheckUpstream", { url: url.trim(), kind, key });
  };
  const test = useAction(async () => {
    setResult(null);
    setResult(await check());
  });
  const add = async (): Promise<void> => {
    const { name, url, key, models } = draft;
    const kind = draft.kind || kindOf(result ?? (await check()));
    const upstream = { name: name.trim(), url: url.trim(), kind, models: linesOf(models) };
    await call("unified.admin.v1.UpstreamService/CreateUpstream", { upstream, key });
    onDone();
    onClose();
  };
  return (
    <Dialog title="Add an upstream" onClose={onClose}>
      <Form verb="Add upstream" send={add} onCancel={onClose}>
        <ServerFields draft={draft} onChange={change} />
        <div class="stack">
          <div>
            <button type="button" disabled={test.isRunning || draft.url.trim() === ""} onClick={test.start}>
              {test.isRunning ? "Testing…" : "Test"}
            </button>
          </div>
          <div class="stack" aria-live="polite">
            <Problem error={test.error} />
            {result !== null && <CheckResult result={result} />}
          </div>
        </div>
      </Form>
    </Dialog>
  );
}

/** The kind that a check has found. Throws for a server that cannot be used, whose kind has to be chosen. */
function kindOf({ usable = false, kind = "", problem = "", fix = "" }: CheckUpstreamResponseJson): string {
  if (usable) return kind;
  throw new Error(`${problem}: ${fix}. To add it now, choose its kind.`);
}

interface ServerFieldsProps {
  readonly draft: UpstreamDraft;
  readonly onChange: (part: Partial<UpstreamDraft>) => void;
}

function ServerFields({ draft: { name, url, kind, key, models }, onChange }: ServerFieldsProps) {
  return (
    <>
      <Field
        label="Name"
        name="upstream.name"
        hint="Letters, digits and . _ -, at most 64. The ids of its deployments begin with it."
      >
        {(ids) => (
          <input
            {...ids}
            type="text"
            required
            maxLength={64}
            autocomplete="off"
            spellcheck={false}
            placeholder="gpu-1"
            value={name}
            onInput={(event) => onChange({ name: textOf(event) })}
          />
        )}
      </Field>
      <Field label="URL" name="upstream.url" hint="The base URL, usually with /v1 at its end; for Azure the resource.">
        {(ids) => (
          <input
            {...ids}
            type="url"
            required
            maxLength={2_048}
            autocomplete="off"
            placeholder="http://10.0.0.5:8000/v1"
            value={url}
            onInput={(event) => onChange({ url: textOf(event) })}
          />
        )}
      </Field>
      <Select label="Kind" titles={kindTitles} value={kind} onChoose={(chosen) => onChange({ kind: chosen })} />
      <KeyField hint="Leave empty if it needs none." value={key} onChange={(text) => onChange({ key: text })} />
      <Field label="Models" name="upstream.models" hint="One a line. Leave empty to offer all models that it lists.">
        {(ids) => (
          <textarea
            {...ids}
            rows={2}
            spellcheck={false}
            value={models}
            onInput={(event) => onChange({ models: textOf(event) })}
          />
        )}
      </Field>
    </>
  );
}

interface KeyFieldProps {
  readonly hint: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
}

/** A key of the upstream, which the service never shows again. */
function KeyField({ hint, value, onChange }: KeyFieldProps) {
  return (
    <Field label="API key" name="key" hint={`${hint} It is stored encrypted and never shown.`}>
      {(ids) => (
        <input
          {...ids}
          type="password"
          maxLength={8_192}
          // Of another service: password managers must neither fill in nor save it.
          autocomplete="off"
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}

/** Edits the share of requests and the key of a stored upstream. */
export function EditUpstream({ upstream, onDone, onClose }: UpstreamDialogProps) {
  const { name = "" } = upstream;
  const [weight, setWeight] = useState(String(upstream.weight ?? 1));
  const [priority, setPriority] = useState(String(upstream.priority ?? 0));
  const [slots, setSlots] = useState(String(upstream.slots ?? 1));
  const [key, setKey] = useState("");
  const save = async (): Promise<void> => {
    const numbers = { weight: Number(weight), priority: Number(priority), slots: Number(slots) };
    const request = { name, ...numbers, ...(key === "" ? {} : { key }) };
    await call("unified.admin.v1.UpstreamService/UpdateUpstream", request);
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Edit ${name}`} onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <NumberField
          label="Weight"
          name="weight"
          hint="Share of the requests of its models, relative to their other deployments. 1 to 1,000."
          range={[1, 1_000]}
          value={weight}
          onChange={setWeight}
        />
        <NumberField
          label="Priority"
          name="priority"
          hint="The lowest number is used first; others only while it cannot answer. 0 to 100."
          range={[0, 100]}
          value={priority}
          onChange={setPriority}
        />
        <NumberField
          label="Slots"
          name="slots"
          hint="Concurrent requests of each model. 1 to 65,536."
          range={[1, 65_536]}
          value={slots}
          onChange={setSlots}
        />
        <KeyField hint="Leave empty to keep the present one." value={key} onChange={setKey} />
      </Form>
    </Dialog>
  );
}

interface NumberFieldProps {
  readonly label: string;
  readonly name: string;
  readonly hint: string;
  readonly range: readonly [min: number, max: number];
  readonly value: string;
  readonly onChange: (text: string) => void;
}

function NumberField({ range: [min, max], value, onChange, ...field }: NumberFieldProps) {
  return (
    <Field {...field}>
      {(ids) => (
        <input
          {...ids}
          type="number"
          required
          min={min}
          max={max}
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}

/** Deletes a stored upstream; where uis.yaml has one of the same name, that one stays. */
export function DeleteUpstream({ upstream, onDone, onClose }: UpstreamDialogProps) {
  const { name = "", url = "" } = upstream;
  const run = async (): Promise<void> => {
    await call("unified.admin.v1.UpstreamService/DeleteUpstream", { name });
    onDone();
  };
  return (
    <Confirm title={`Delete ${name}?`} verb="Delete" run={run} onClose={onClose}>
      {isStored(upstream) ? (
        <>
          <code>{url}</code>
          <p>
            Its models get no more requests here, active requests finish, and its API key is deleted. Models without
            another deployment are no longer offered. This cannot be undone.
          </p>
        </>
      ) : (
        <p>The upstream of this name that was added here is deleted with its API key. That of uis.yaml stays in use.</p>
      )}
    </Confirm>
  );
}
