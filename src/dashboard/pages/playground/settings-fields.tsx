import { useState } from "preact/hooks";
import { type FieldError, FieldErrors, TextField } from "../../ui/form.js";
import { type NumberSetting, numberSettings, type Settings } from "./requests.js";

const advanced: readonly NumberSetting[] = ["frequencyPenalty", "presencePenalty", "seed"];

/** Whether the window is wide enough for settings next to the conversation. Otherwise they are above it, closed at first. */
export function isSideBySide(): boolean {
  return window.matchMedia("(min-width: 1001px)").matches;
}

interface SettingsFieldsProps {
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
  /** Only chat has a system prompt and tools. */
  readonly isChat: boolean;
  /** The last request's error if it names a setting; otherwise null. */
  readonly error: FieldError | null;
}

/** The parameters of requests. */
export function SettingsFields({ settings, onChange, isChat, error }: SettingsFieldsProps) {
  const [isWide] = useState(isSideBySide);
  const typed = (name: keyof Settings) => ({
    value: settings[name],
    onChange: (text: string) => onChange({ ...settings, [name]: text }),
  });
  const number = (name: NumberSetting) => {
    const { label, openai, hint } = numberSettings[name];
    return <TextField key={name} label={label} name={openai} hint={hint} inputMode="decimal" {...typed(name)} />;
  };
  return (
    <details class="card settings" open={isWide}>
      <summary>Settings</summary>
      <FieldErrors error={error}>
        <div class="stack">
          {isChat && <TextField label="System prompt" rows={3} {...typed("system")} />}
          <div class="numbers">
            {number("temperature")}
            {number("topP")}
          </div>
          {number("maxTokens")}
          {isChat && (
            <TextField
              label="Tools"
              name="tools"
              hint="JSON array in OpenAI's format"
              rows={3}
              isCode
              {...typed("tools")}
            />
          )}
          <details>
            <summary>Advanced</summary>
            <div class="stack">
              {advanced.map(number)}
              <TextField
                label="Stop sequences"
                name="stop"
                hint="One per line, up to 4"
                rows={2}
                isCode
                {...typed("stop")}
              />
            </div>
          </details>
        </div>
      </FieldErrors>
    </details>
  );
}
