import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { ApiError } from "../lib/api.js";
import { useAction } from "./action.js";
import { useHold } from "./dialog.js";
import { Problem } from "./feedback.js";

export interface FieldProps {
  readonly label: string;
  /** Help text: purpose and bounds. */
  readonly hint?: string;
  /** The request field, as errors of the service name it. */
  readonly name?: string;
  readonly children: (ids: { readonly id: string; readonly "aria-describedby"?: string }) => ComponentChildren;
}

/** A labelled control; `children` renders the control with the given ids. */
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
  /** Label of the submit button. */
  readonly verb: string;
  readonly send: () => Promise<void>;
  readonly onCancel?: () => void;
  /** The answer contains a secret shown once, so the dialog stays open until it arrives. */
  readonly makesSecret?: boolean;
  readonly children: ComponentChildren;
}

/** Submits once at a time and shows the service's error with the name of the field. */
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

/** The text of an input event. */
export function textOf(event: Event): string {
  return event.target instanceof HTMLInputElement ||
    event.target instanceof HTMLTextAreaElement ||
    event.target instanceof HTMLSelectElement
    ? event.target.value
    : "";
}

export interface SelectProps<T extends string> {
  readonly label: string;
  /** The options with their labels. */
  readonly titles: Readonly<Partial<Record<T, string>>>;
  readonly value: T;
  readonly onChoose: (value: T) => void;
}

/** Selects one of a few values. */
export function Select<T extends string>({ label, titles, value, onChoose }: SelectProps<T>) {
  const names = Object.keys(titles) as T[];
  const choose = (text: string): void => {
    const chosen = names.find((name) => name === text);
    if (chosen !== undefined) onChoose(chosen);
  };
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => choose(textOf(event))}>
          {names.map((name) => (
            <option key={name} value={name}>
              {titles[name]}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export interface CheckProps {
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
  readonly children: ComponentChildren;
}

/** A checkbox with its label. */
export function Check({ isOn, onChange, children }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={() => onChange(!isOn)} />
      <span>{children}</span>
    </label>
  );
}

export interface AccountChoiceProps {
  readonly account: string;

  readonly onChoose: (account: string) => void;
}

/** Selects the account that a page shows. */
export function AccountChoice({ account, onChoose }: AccountChoiceProps) {
  const [text, setText] = useState(account);
  useEffect(() => setText(account), [account]);
  return (
    <search>
      <form
        class="row account-choice"
        onSubmit={(event) => {
          event.preventDefault();
          onChoose(text.trim());
        }}
      >
        <Field label="Account">
          {(ids) => (
            <input
              {...ids}
              type="text"
              placeholder="default"
              autocomplete="off"
              spellcheck={false}
              value={text}
              onInput={(event) => setText(textOf(event))}
            />
          )}
        </Field>
        <button type="submit">Apply</button>
      </form>
    </search>
  );
}
