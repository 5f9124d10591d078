import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Field, textOf } from "../form.js";
import { Icon } from "../icon.js";
import { place } from "../popover.js";
import { type Choice, matching, titleOf } from "./choice.js";

export interface PickerProps {
  readonly label: string;
  readonly hint?: string;
  /** The request field, as errors of the service name it. */
  readonly name?: string;
  /** Known values; null while they are read. */
  readonly choices: readonly Choice[] | null;
  /** Empty: none. */
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Title of the empty value, such as “All accounts”; without it a value is required. */
  readonly none?: string;
  /** Accepts typed text that is not a choice, such as a new account or a prefix with an asterisk. */
  readonly acceptsOther?: boolean;
}

/**
 * A combobox over known values: typing filters, arrow keys move, Enter selects, Escape closes the list. In a form, text that
 * is not one choice stays and is invalid; elsewhere it is dropped.
 */
export function Picker({ label, hint, name, none, ...list }: PickerProps) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })} {...(name === undefined ? {} : { name })}>
      {(ids) => <Combobox ids={ids} label={label} none={none ?? null} {...list} />}
    </Field>
  );
}

interface ComboboxProps extends Omit<PickerProps, "label" | "hint" | "name" | "none"> {
  readonly ids: object;
  readonly label: string;
  readonly none: string | null;
}

function Combobox({ ids, label, choices, value, onChange, none, acceptsOther = false }: ComboboxProps) {
  const listId = useId();
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  /** The typed text; null while the selection is shown. */
  const [typed, setTyped] = useState<string | null>(null);
  /** Whether the typed text is selected as soon as the choices are loaded. */
  const isWaiting = useRef(false);
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const known = choices ?? [];
  const chosen = known.find((choice) => choice.value === value);
  const shown = [
    ...(none !== null && (typed ?? "") === "" ? [{ value: "", label: none }] : []),
    ...matching(known, typed ?? ""),
  ];
  useEffect(() => {
    const { current } = list;
    if (current === null || input.current === null) return;
    if (!isOpen) {
      if (current.matches(":popover-open")) current.hidePopover();
      return;
    }
    place(current, input.current, { align: "start", isAsWide: true });
    if (!current.matches(":popover-open")) current.showPopover();
    current.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [isOpen, active]);

  const open = (): void => {
    if (isOpen) return;
    setActive(
      Math.max(
        0,
        shown.findIndex((choice) => choice.value === value),
      ),
    );
    setOpen(true);
  };
  const type = (text: string | null): void => {
    isWaiting.current = false;
    setTyped(text);
    input.current?.setCustomValidity("");
  };
  const close = (): void => {
    setOpen(false);
    type(null);
  };
  const choose = (choice: string): void => {
    close();
    if (choice !== value) onChange(choice);
  };
  /** Selects the choice that the typed text means, when the focus leaves. */
  const settle = (): void => {
    const text = typed?.trim();
    if (text === undefined) {
      close();
      return;
    }
    const matches = matching(known, text);
    const exact = known.find((choice) => choice.value === text || titleOf(choice) === text);
    if (exact !== undefined) choose(exact.value);
    else if (text === "" ? none !== null : acceptsOther) choose(text);
    else if (text !== "" && matches.length === 1 && matches[0] !== undefined) choose(matches[0].value);
    else if (choices === null || input.current?.form) {
      setOpen(false);
      isWaiting.current = choices === null;
      input.current?.setCustomValidity(
        choices === null ? "The list is still loading." : "Select a value from the list.",
      );
    } else close();
  };
  useEffect(() => {
    if (choices !== null && isWaiting.current) settle();
  }, [choices === null]);
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      if (isOpen) setActive((active + step + shown.length) % Math.max(1, shown.length));
      else open();
    } else if (event.key === "Enter" && (isOpen || typed !== null)) {
      event.preventDefault();
      const choice = shown[active];
      if (choice !== undefined) choose(choice.value);
      else settle();
    } else if (event.key === "Escape" && isOpen) {
      // Else the surrounding dialog would close, too.
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  };
  return (
    <div class="picker">
      <input
        {...ids}
        ref={input}
        type="text"
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && shown.length > 0 ? `${listId}-${active}` : undefined}
        autocomplete="off"
        spellcheck={false}
        required={none === null}
        placeholder={choices === null ? "Loading…" : (none ?? "Select")}
        value={typed ?? (chosen === undefined ? value : titleOf(chosen))}
        onInput={(event) => {
          type(textOf(event));
          setActive(0);
          setOpen(true);
        }}
        onClick={open}
        onFocus={() => input.current?.select()}
        onKeyDown={press}
        onBlur={settle}
      />
      <Icon name="selector" />
      <div ref={list} id={listId} class="menu-list" popover="manual" role="listbox" aria-label={label}>
        {shown.map((choice, index) => (
          <button
            key={choice.value}
            type="button"
            tabIndex={-1}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === active}
            // Keeps the focus in the field.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => choose(choice.value)}
          >
            <span>{titleOf(choice)}</span>
            {"detail" in choice && choice.detail !== undefined && <small>{choice.detail}</small>}
            {choice.value === value && <Icon name="check" />}
          </button>
        ))}
        {shown.length === 0 && (
          <button type="button" tabIndex={-1} class="menu-note" role="option" aria-selected={false} disabled>
            {acceptsOther && (typed ?? "").trim() !== ""
              ? `Use “${(typed ?? "").trim()}”: press Enter`
              : choices === null
                ? "Loading…"
                : "No matches"}
          </button>
        )}
      </div>
    </div>
  );
}

export interface ManyPickerProps extends Omit<PickerProps, "value" | "onChange" | "none"> {
  readonly values: readonly string[];
  readonly onChange: (values: readonly string[]) => void;
  /** Text for an empty selection, such as “All models”. */
  readonly none: string;
}

/** Selects several values; each is shown with a button that removes it. */
export function ManyPicker({ values, onChange, choices, ...picker }: ManyPickerProps) {
  const left = choices?.filter(({ value }) => !values.includes(value)) ?? null;
  const add = (value: string): void => {
    if (value !== "" && !values.includes(value)) onChange([...values, value]);
  };
  return (
    <div class="stack-tight">
      <Picker {...picker} choices={left} value="" onChange={add} />
      {values.length > 0 && (
        <ul class="chips" aria-label={picker.label}>
          {values.map((value) => (
            <li key={value} class="chip">
              {value}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${value}`}
                onClick={() => onChange(values.filter((other) => other !== value))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
