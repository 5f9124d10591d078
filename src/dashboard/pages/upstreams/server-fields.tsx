import { Field, Select, TextField, textOf } from "../../ui/form.js";
import type { Choice } from "../../ui/picker/choice.js";
import { ManyPicker } from "../../ui/picker/picker.js";
import { kindTitles } from "./upstream.js";
import { timeoutNames, timeouts, type UpstreamDraft } from "./upstream-draft.js";

export interface ServerFieldsProps {
  readonly draft: UpstreamDraft;
  readonly onChange: (part: Partial<UpstreamDraft>) => void;
  /** Models that the server lists, as far as a check has found them. */
  readonly models: readonly Choice[];
  /** Null: a new upstream. Otherwise its name and kind cannot change, and the names of its headers are shown. */
  readonly headerNames: readonly string[] | null;
}

const nativeApis: readonly Choice[] = [{ value: "responses" }, { value: "messages" }];

/** The settings of an upstream server. */
export function ServerFields({ draft, onChange, models, headerNames }: ServerFieldsProps) {
  const isNew = headerNames === null;
  const typed = (field: "name" | "url" | "apiVersion" | "headers") => ({
    value: draft[field],
    onChange: (text: string) => onChange({ [field]: text }),
  });
  return (
    <>
      {isNew && (
        <TextField
          label="Name"
          name="name"
          hint="Letters, digits and . _ -, at most 64. The ids of its deployments begin with it."
          required
          maxLength={64}
          isCode
          placeholder="gpu-1"
          {...typed("name")}
        />
      )}
      <TextField
        label="URL"
        name="url"
        hint={
          isNew
            ? "The base URL, usually with /v1 at its end; for Azure the resource."
            : "For another server, set key and headers again."
        }
        type="url"
        required
        maxLength={2_048}
        placeholder="http://10.0.0.5:8000/v1"
        {...typed("url")}
      />
      {isNew && <Select label="Kind" titles={kindTitles} value={draft.kind} onChoose={(kind) => onChange({ kind })} />}
      {draft.kind === "azure" && (
        <TextField
          label="API version"
          name="api_version"
          hint="Leave empty for the paths below /openai/v1."
          isCode
          placeholder="2024-10-21"
          {...typed("apiVersion")}
        />
      )}
      <KeyField
        hint={isNew ? "Leave empty if it needs none." : "Leave empty to keep the current one."}
        value={draft.key}
        onChange={(key) => onChange({ key })}
      />
      <ManyPicker
        label="Models"
        name="models"
        hint={isNew ? "Test the server to choose from its list." : "Names at the server."}
        none="All models that it lists"
        acceptsOther
        choices={models}
        values={draft.models}
        onChange={(chosen) => onChange({ models: chosen })}
      />
      <details>
        <summary>Headers, timeouts, native APIs and share of requests</summary>
        <div class="stack upstream-more">
          <ManyPicker
            label="Native APIs"
            name="native"
            hint="APIs that the server itself supports. It gets their requests unchanged, not translated to chat."
            none="None"
            choices={nativeApis}
            values={draft.native}
            onChange={(chosen) => onChange({ native: chosen })}
          />
          <TextField
            label="Headers"
            name="headers"
            hint={`One “name: value” a line, at most 32. Stored encrypted and never shown.${keptHeaders(headerNames)}`}
            rows={2}
            isCode
            {...typed("headers")}
          />
          <div class="upstream-numbers">
            {timeoutNames.map((timeout) => {
              const { label, name, hint } = timeouts[timeout];
              return (
                <TextField
                  key={name}
                  label={label}
                  name={name}
                  hint={hint}
                  type="number"
                  min={0.01}
                  max={86_400}
                  step="any"
                  value={draft[timeout]}
                  onChange={(text) => onChange({ [timeout]: text })}
                />
              );
            })}
          </div>
          <ShareFields draft={draft} onChange={onChange} />
        </div>
      </details>
    </>
  );
}

function keptHeaders(names: readonly string[] | null): string {
  return names === null || names.length === 0 ? "" : ` Leave empty to keep ${names.join(", ")}.`;
}

function ShareFields({ draft, onChange }: Pick<ServerFieldsProps, "draft" | "onChange">) {
  const number = (field: "weight" | "priority" | "slots", label: string, hint: string, min: number, max: number) => (
    <TextField
      label={label}
      name={field}
      hint={hint}
      type="number"
      required
      min={min}
      max={max}
      value={draft[field]}
      onChange={(text) => onChange({ [field]: text })}
    />
  );
  return (
    <>
      {number(
        "weight",
        "Weight",
        "Share of the requests of its models, relative to their other deployments. 1 to 1,000.",
        1,
        1_000,
      )}
      {number(
        "priority",
        "Priority",
        "The lowest number is used first; others only while it cannot answer. 0 to 100.",
        0,
        100,
      )}
      {number("slots", "Slots", "Concurrent requests of each model. 1 to 65,536.", 1, 65_536)}
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
