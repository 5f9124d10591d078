import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAction } from "./action.js";
import { useHold } from "./dialog.js";
import { Problem } from "./feedback.js";
import { Icon } from "./icon.js";

/** An error that names a request field. */
export interface FieldError {
  readonly param: string;
  readonly message: string;
}

/** The error if it names a field; it comes from the service, or from a form that checks its fields itself. */
export function fieldErrorOf(error: Error | null): FieldError | null {
  const { param = "", message = "" } = (error ?? {}) as Partial<FieldError>;
  return param === "" ? null : { param, message };
}

/** The context that a form gives its fields. */
interface FormFields {
  /** The error of one request field; null if there is none. */
  readonly error: FieldError | null;
  /** Names of the fields in the form: an error of any other field is shown above the buttons. */
  readonly names: Set<string>;
}

const Fields = createContext<FormFields>({ error: null, names: new Set() });

/** Whether an error of the service means the field: `models[0]` and `api_key.models` both mean `models`. */
export function isAbout(name: string, param: string): boolean {
  return name !== "" && param.split(/\W+/).includes(name);
}

export interface FieldProps {
  readonly label: string;
  /** Help text: purpose and bounds. */
  readonly hint?: string;
  /** Name of the request field in errors of the service, which are shown below the control. */
  readonly name?: string;
  readonly children: (ids: ControlIds) => ComponentChildren;
}

interface ControlIds {
  readonly id: string;
  readonly "aria-describedby"?: string;
  readonly "aria-invalid"?: true;
}

/** A labelled control; `children` renders the control with the given ids. */
export function Field({ label, hint, name = "", children }: FieldProps) {
  const id = useId();
  const { error, names } = useContext(Fields);
  // A layout effect, so that the form knows the field's name before it shows an error.
  useLayoutEffect(() => {
    names.add(name);
    return () => void names.delete(name);
  }, [names, name]);
  const problem = error !== null && isAbout(name, error.param) ? error.message : null;
  const described = [hint === undefined ? "" : `${id}-hint`, problem === null ? "" : `${id}-error`].filter(Boolean);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({
        id,
        ...(described.length === 0 ? {} : { "aria-describedby": described.join(" ") }),
        ...(problem === null ? {} : { "aria-invalid": true }),
      })}
      {hint !== undefined && <small id={`${id}-hint`}>{hint}</small>}
      {problem !== null && (
        <p id={`${id}-error`} class="field-error" role="alert">
          <Icon name="alert" />
          {problem}
        </p>
      )}
    </div>
  );
}

export interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Default: `text`. */
  readonly type?: "text" | "url" | "number" | "search" | "date" | "datetime-local";
  /** Makes it a text area of this many lines. */
  readonly rows?: number;
  /** Ids, URLs and JSON: fixed-width, not checked for spelling. */
  readonly isCode?: boolean;
  /** Which keyboard a phone shows; numbers that may be empty or invalid while they are typed are texts. */
  readonly inputMode?: "decimal";
  readonly required?: boolean;
  readonly placeholder?: string;
  readonly maxLength?: number;
  /** Bounds of a number. */
  readonly min?: number;
  readonly max?: number;
  /** `any` accepts fractions. Default: whole numbers. */
  readonly step?: number | "any";
}

/** An input for text or a number with its label, hint and error. For passwords, use `PasswordField`. */
export function TextField(props: TextFieldProps) {
  const { label, hint, name, value, onChange, type = "text", rows, isCode = type === "url", ...bounds } = props;
  const control = {
    ...bounds,
    value,
    autocomplete: "off",
    spellcheck: !isCode && type === "text",
    class: isCode ? "value" : undefined,
    onInput: (event: Event) => onChange(textOf(event)),
  } as const;
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })} {...(name === undefined ? {} : { name })}>
      {(ids) =>
        rows === undefined ? (
          <input {...ids} {...({ type } as InputType)} {...control} />
        ) : (
          <textarea {...ids} rows={rows} {...control} />
        )
      }
    </Field>
  );
}

/** The types of elements allow some attributes for some input types only. */
type InputType = { readonly type: "text" };

export interface FieldErrorsProps {
  readonly error: FieldError | null;
  readonly children: ComponentChildren;
}

/** Shows an error below the field that it names, where the fields belong to a form elsewhere on the page. */
export function FieldErrors({ error, children }: FieldErrorsProps) {
  const [names] = useState(() => new Set<string>());
  return <Fields.Provider value={{ error, names }}>{children}</Fields.Provider>;
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

/** Runs one submission at a time. An error of a field is shown below it, and focuses it; any other above the buttons. */
export function Form({ verb, send, onCancel, makesSecret = false, children }: FormProps) {
  const { isRunning, error, start } = useAction(send);
  const form = useRef<HTMLFormElement>(null);
  const [names] = useState(() => new Set<string>());
  const isHeld = makesSecret && isRunning;
  useHold(isHeld);
  useEffect(() => {
    const invalid = form.current?.querySelector<HTMLElement>("[aria-invalid]");
    if (invalid === null || invalid === undefined) return;
    openAround(invalid);
    invalid.focus();
  }, [error]);
  const fieldError = fieldErrorOf(error);
  const isAtField = fieldError !== null && [...names].some((name) => isAbout(name, fieldError.param));
  const general = fieldError === null ? error : new Error(`${fieldError.param}: ${fieldError.message}`);
  return (
    <form
      ref={form}
      class="stack"
      // The browser cannot show an invalid value in a closed part of the form.
      onInvalidCapture={({ target }) => {
        if (target instanceof Element) openAround(target);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        start();
      }}
    >
      <Fields.Provider value={{ error: fieldError, names }}>{children}</Fields.Provider>
      <Problem error={isAtField ? null : general} />
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

function openAround(element: Element): void {
  const closed = element.closest<HTMLDetailsElement>("details:not([open])");
  if (closed !== null) closed.open = true;
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
