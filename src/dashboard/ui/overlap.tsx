import { Field, textOf } from "./form.js";

/** How long a replaced secret goes on, as the contract writes durations. */
export type Overlap = "0s" | "3600s" | "86400s" | "604800s";

/** What the service takes when nothing is said. */
export const usualOverlap: Overlap = "86400s";

const choices: Readonly<Record<Overlap, string>> = {
  "0s": "not at all",
  "3600s": "for 1 hour",
  "86400s": "for 24 hours",
  "604800s": "for 7 days",
};

export interface OverlapFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: Overlap;
  readonly onChange: (value: Overlap) => void;
}

/** Asks how long the old and the new secret hold side by side. */
export function OverlapField({ label, hint, value, onChange }: OverlapFieldProps) {
  const choose = (text: string): void => onChange(isOverlap(text) ? text : usualOverlap);
  return (
    <Field label={label} hint={hint} name="overlap">
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => choose(textOf(event))}>
          {Object.entries(choices).map(([duration, words]) => (
            <option key={duration} value={duration}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function isOverlap(text: string): text is Overlap {
  return text in choices;
}
