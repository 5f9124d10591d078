import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Copy } from "./code.js";
import { useHold } from "./dialog.js";
import { Field, textOf } from "./form.js";

export interface SecretOnceProps {
  readonly label: string;
  readonly secret: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** The body of a dialog that shows a new secret once. Only its own button closes the dialog. */
export function SecretOnce({ label, secret, onClose, children }: SecretOnceProps) {
  const box = useRef<HTMLElement>(null);
  const id = useId();
  useHold(true);
  // The box replaces the form that had the focus; the focus also makes screen readers announce it.
  useEffect(() => box.current?.focus(), []);
  return (
    <div class="stack">
      <section ref={box} class="secret" tabIndex={-1} aria-labelledby={id} aria-describedby={`${id}-once`}>
        <strong id={id}>{label}</strong>
        <div class="row">
          <code class="value">{secret}</code>
          <Copy text={secret} />
        </div>
        <small id={`${id}-once`}>
          This secret is shown only once. Copy it now and store it safely; if you lose it, rotate it.
        </small>
      </section>
      {children}
      <footer>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </div>
  );
}

/** How long a rotated secret stays valid, as a protobuf duration. */
export type Overlap = "0s" | "3600s" | "86400s" | "604800s";

/** Equals the service's default. */
export const defaultOverlap: Overlap = "86400s";

const overlaps: Readonly<Record<Overlap, string>> = {
  "0s": "Immediately",
  "3600s": "In 1 hour",
  "86400s": "In 24 hours",
  "604800s": "In 7 days",
};

export interface OverlapFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: Overlap;
  readonly onChange: (value: Overlap) => void;
}

/** Selects when the old secret expires after a rotation. */
export function OverlapField({ label, hint, value, onChange }: OverlapFieldProps) {
  const choose = (text: string): void => onChange(isOverlap(text) ? text : defaultOverlap);
  return (
    <Field label={label} hint={hint} name="overlap">
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => choose(textOf(event))}>
          {Object.entries(overlaps).map(([duration, title]) => (
            <option key={duration} value={duration}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function isOverlap(text: string): text is Overlap {
  return text in overlaps;
}
