import { useState } from "preact/hooks";
import { toLocal } from "../../lib/format.js";
import { Field, textOf } from "../form.js";

const dayMs = 86_400_000;

/** Offered periods in days. */
const periods: Readonly<Record<string, string>> = {
  "1": "1 day",
  "7": "7 days",
  "30": "30 days",
  "90": "90 days",
  "365": "1 year",
};

export interface ExpiryPickerProps {
  readonly label: string;
  readonly hint?: string;
  /** The request field, as errors of the service name it. */
  readonly name?: string;
  /** The value of a `datetime-local` input; empty: never. */
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Selects when something expires: never, after a usual period, or at a date. */
export function ExpiryPicker({ label, hint, name, value, onChange }: ExpiryPickerProps) {
  const [period, setPeriod] = useState(value === "" ? "never" : "date");
  const choose = (chosen: string): void => {
    setPeriod(chosen);
    if (chosen === "never") onChange("");
    else onChange(toLocal(new Date(Date.now() + Number(chosen === "date" ? 30 : chosen) * dayMs).toISOString()));
  };
  return (
    <div class="stack-tight">
      <Field label={label} {...(hint === undefined ? {} : { hint })} {...(name === undefined ? {} : { name })}>
        {(ids) => (
          <select {...ids} value={period} onChange={(event) => choose(textOf(event))}>
            <option value="never">Never</option>
            {Object.entries(periods).map(([days, title]) => (
              <option key={days} value={days}>
                {title}
              </option>
            ))}
            <option value="date">On a date…</option>
          </select>
        )}
      </Field>
      {period === "date" && (
        <input
          type="datetime-local"
          required
          aria-label={`${label}: date and time`}
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
      {period !== "date" && value !== "" && <small>{new Date(value).toLocaleString()}</small>}
    </div>
  );
}
