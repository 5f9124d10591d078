import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { ApiError } from "../api.js";
import { useAction } from "./action.js";
import { useHold } from "./dialog.js";
import { Problem } from "./feedback.js";

export interface FieldProps {
  readonly label: string;
  /** What it is for, and its bounds. */
  readonly hint?: string;
  /** Name of the field in the service's errors. */
  readonly name?: string;
  readonly children: (ids: { readonly id: string; readonly "aria-describedby"?: string }) => ComponentChildren;
}

/** A labelled control: `children` puts the ids on it. */
export function Field({ label, hint, name, children }: FieldProps) {
  const id = useId();
  const hintId = `${id}-hint`;
  return (
    <div class="field" data-field={name}>
      <label for={id}>{label}</label>
      {children(hint === undefined ? { id } : { id, "aria-describedby": hintId })}
      {hint !== undefined && <small id={hintId}>{hint}</small>}
    </div>
  );
}

export interface FormProps {
  /** The verb of the button that sends it. */
  readonly verb: string;
  readonly send: () => Promise<void>;
  readonly onCancel?: () => void;
  /** What comes back is shown this once: the window stays open until it is there. */
  readonly makesSecret?: boolean;
  readonly children: ComponentChildren;
}

/** Sends once at a time and shows what the service refused, naming the field. */
export function Form({ verb, send, onCancel, makesSecret = false, children }: FormProps) {
  const { isRunning, error, start } = useAction(send);
  const isHeld = makesSecret && isRunning;
  useHold(isHeld);
  const shown = error instanceof ApiError && error.param !== "" ? new Error(`${error.param}: ${error.message}`) : error;
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        start();
      }}
    >
      {children}
      <Problem error={shown} />
      <footer>
        {onCancel !== undefined && (
          <button type="button" disabled={isHeld} onClick={onCancel}>
            Cancel
          </button>
        )}
        <button type="submit" class="primary" disabled={isRunning}>
          {verb}
        </button>
      </footer>
    </form>
  );
}

/** Text of an input event. */
export function textOf(event: Event): string {
  return event.target instanceof HTMLInputElement ||
    event.target instanceof HTMLTextAreaElement ||
    event.target instanceof HTMLSelectElement
    ? event.target.value
    : "";
}
