/** The keyboard palette: pages, models, keys and endpoints by name. Loaded when it is first opened. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { go, prefix } from "../lib/location.js";
import { textOf } from "../ui/form.js";
import { Icon, type IconName } from "../ui/icon.js";
import { type Choice, matching, titleOf } from "../ui/picker/choice.js";
import { useEndpointChoices, useKeyChoices, useModelChoices } from "../ui/picker/known.js";
import { groups } from "./pages.js";

interface Command extends Choice {
  readonly icon: IconName;
  readonly run: () => void;
}

const pageCommands: readonly Command[] = [
  ...groups.flatMap(({ title: group, pages }) =>
    pages.map(({ name, title, icon }) => ({
      value: `page ${name}`,
      label: title,
      detail: group,
      icon,
      run: () => go(name),
    })),
  ),
  {
    value: "documentation",
    label: "API documentation",
    detail: "Every route",
    icon: "api",
    run: () => window.location.assign(`${prefix}/docs/`),
  },
];

/** Models, keys and endpoints of the service, each with the page that shows it. */
function useCommands(): readonly Command[] {
  const models = useModelChoices() ?? [];
  const keys = useKeyChoices("") ?? [];
  const endpoints = useEndpointChoices("") ?? [];
  const commands = (choices: readonly Choice[], kind: string, icon: IconName, run: (id: string) => void): Command[] =>
    choices.map(({ value, label = value }) => ({
      value: `${kind} ${value}`,
      label,
      detail: kind,
      icon,
      run: () => run(value),
    }));
  return [
    ...pageCommands,
    ...commands(models, "Try in the playground", "playground", (model) => go("playground", { model })),
    ...commands(keys, "API key", "key", (search) => go("keys", { search })),
    ...commands(endpoints, "Deliveries of the endpoint", "deliveries", (endpoint) => go("deliveries", { endpoint })),
  ];
}

/** Typing filters, arrow keys move, Enter goes there, Escape closes. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const [typed, setTyped] = useState("");
  const [active, setActive] = useState(0);
  const shown = matching(useCommands(), typed);
  useEffect(() => element.current?.showModal(), []);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [active, typed]);
  const run = (command: Command | undefined): void => {
    if (command === undefined) return;
    element.current?.close();
    command.run();
    document.getElementById("content")?.focus();
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setActive((active + step + shown.length) % Math.max(1, shown.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(shown[active]);
    }
  };
  return (
    <dialog
      ref={element}
      class="palette"
      aria-label="Search"
      onClose={onClose}
      onPointerDown={({ target }) => {
        if (target === element.current) element.current?.close();
      }}
    >
      <div class="palette-field">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search pages, models, keys and endpoints"
          aria-expanded="true"
          aria-controls={id}
          aria-autocomplete="list"
          aria-activedescendant={shown.length === 0 ? undefined : `${id}-${active}`}
          placeholder="Search pages, models, keys, endpoints"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => {
            setTyped(textOf(event));
            setActive(0);
          }}
          onKeyDown={press}
        />
      </div>
      <div ref={list} id={id} class="palette-list" role="listbox" aria-label="Results">
        {shown.map((command, index) => (
          <button
            key={command.value}
            id={`${id}-${index}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={index === active}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => run(command)}
          >
            <Icon name={command.icon} />
            <span>{titleOf(command)}</span>
            <small>{command.detail}</small>
          </button>
        ))}
      </div>
      {shown.length === 0 && (
        <p class="palette-none" role="status">
          No results
        </p>
      )}
    </dialog>
  );
}
