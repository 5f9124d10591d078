import { Field, textOf } from "../../ui/form.js";
import { type NumberSetting, numberSettings, type Settings } from "./requests.js";

const advanced: readonly NumberSetting[] = ["frequencyPenalty", "presencePenalty", "seed"];

interface SettingsFieldsProps {
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
  /** Only chat has a system prompt and tools. */
  readonly isChat: boolean;
}

/** The parameters of requests. */
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
          <Decimal {...numberSettings.temperature} {...field("temperature")} />
          <Decimal {...numberSettings.topP} {...field("topP")} />
        </div>
        <Decimal {...numberSettings.maxTokens} {...field("maxTokens")} />
        {isChat && <Lines label="Tools" hint="JSON array in OpenAI's format" rows={3} {...field("tools")} />}
        <details>
          <summary>Advanced</summary>
          <div class="stack">
            {advanced.map((name) => (
              <Decimal key={name} {...numberSettings[name]} {...field(name)} />
            ))}
            <Lines label="Stop sequences" hint="One per line, up to 4" rows={2} {...field("stop")} />
          </div>
        </details>
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
