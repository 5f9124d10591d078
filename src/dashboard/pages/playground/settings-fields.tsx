import { Field, textOf } from "../../ui/form.js";
import type { Settings } from "./settings.js";

export interface SettingsFieldsProps {
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
  /** Whether there is a conversation: only that has instructions and tools. */
  readonly isChat: boolean;
}

export function SettingsFields({ settings, onChange, isChat }: SettingsFieldsProps) {
  const field = (name: keyof Settings) => ({
    value: settings[name],
    onType: (text: string) => onChange({ ...settings, [name]: text }),
  });
  return (
    <details class="card settings" open>
      <summary>Settings</summary>
      <div class="stack">
        {isChat && <Lines label="System prompt" rows={3} {...field("system")} />}
        <div class="numbers">
          <Decimal label="Temperature" hint="0 to 2" {...field("temperature")} />
          <Decimal label="Top p" hint="0 to 1" {...field("topP")} />
        </div>
        <Decimal label="Tokens at most" hint="Empty: what is left of the context" {...field("maxTokens")} />
        <Lines label="Stop at" hint="One text a line, at most 4" rows={2} {...field("stop")} />
        {isChat && <Lines label="Tools" hint="JSON, as OpenAI has it" rows={5} {...field("tools")} />}
      </div>
    </details>
  );
}

interface TypedProps {
  readonly label: string;
  readonly hint?: string;
  readonly value: string;
  readonly onType: (text: string) => void;
}

function Decimal({ label, hint, value, onType }: TypedProps) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(ids) => (
        <input
          {...ids}
          type="text"
          inputMode="decimal"
          autocomplete="off"
          value={value}
          onInput={(event) => onType(textOf(event))}
        />
      )}
    </Field>
  );
}

function Lines({ label, hint, rows, value, onType }: TypedProps & { readonly rows: number }) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(ids) => (
        <textarea {...ids} rows={rows} spellcheck={false} value={value} onInput={(event) => onType(textOf(event))} />
      )}
    </Field>
  );
}
