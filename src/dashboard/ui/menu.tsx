import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { go } from "../lib/location.js";
import { useCanChange } from "../lib/session.js";
import { Icon, type IconName } from "./icon.js";
import { place } from "./popover.js";

export interface MenuItem {
  readonly label: string;
  readonly icon?: IconName;
  /** The action destroys something. Such items stand last, below a line. */
  readonly isDanger?: boolean;
  readonly isDisabled?: boolean;
  /** The action changes nothing, so viewers have it, too. Default: false. */
  readonly isReading?: boolean;
  readonly onSelect: () => void;
}

export interface MenuProps {
  /** Accessible name of the button. */
  readonly label: string;
  readonly items: readonly MenuItem[];
  /** The content of the button. */
  readonly children: ComponentChildren;
  readonly class?: string;
  readonly align?: "start" | "end";
}

/**
 * A button that opens a menu. Arrow keys, Home and End move within it; Escape closes it. An item gives the focus back to the
 * button before it acts, so that a dialog that it opens returns the focus there.
 */
export function Menu({ label, items, children, class: style = "quiet", align = "end" }: MenuProps) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const focusAt = (index: number): void => {
    const found = menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [];
    if (found.length > 0) found[(index + found.length) % found.length]?.focus();
  };
  const move = (event: KeyboardEvent): void => {
    const found: (Element | null)[] = [...(menu.current?.querySelectorAll("[role=menuitem]:not(:disabled)") ?? [])];
    const at = found.indexOf(document.activeElement);
    const targets: Readonly<Record<string, number>> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const target = targets[event.key];
    if (event.key === "Tab") menu.current?.hidePopover();
    if (target === undefined) return;
    event.preventDefault();
    focusAt(target);
  };
  const select = ({ onSelect }: MenuItem): void => {
    menu.current?.hidePopover();
    button.current?.focus();
    onSelect();
  };
  const first = items.find(({ isDisabled = false }) => !isDisabled);
  return (
    <>
      <button ref={button} type="button" class={style} aria-label={label} aria-haspopup="menu" popovertarget={id}>
        {children}
      </button>
      <div
        ref={menu}
        id={id}
        class="menu-list"
        popover="auto"
        role="menu"
        aria-label={label}
        onKeyDown={move}
        onBeforeToggle={({ newState }) => {
          if (newState !== "open" || menu.current === null || button.current === null) return;
          place(menu.current, button.current, { align });
        }}
      >
        {items.map((item) => (
          <button
            key={item.label}
            type="button"
            role="menuitem"
            tabIndex={-1}
            // biome-ignore lint/a11y/noAutofocus: applies when the menu opens, before the next key; a toggle event comes after it.
            autoFocus={item === first}
            class={item.isDanger ? "danger" : undefined}
            disabled={item.isDisabled ?? false}
            onClick={() => select(item)}
          >
            {item.icon !== undefined && <Icon name={item.icon} />}
            {item.label}
          </button>
        ))}
      </div>
    </>
  );
}

/** The actions of one row or card, behind a button with three dots; for viewers those that change nothing. */
export function RowMenu({ label, items }: Pick<MenuProps, "label" | "items">) {
  const canChange = useCanChange();
  const allowed = items.filter(({ isReading = false }) => canChange || isReading);
  if (allowed.length === 0) return null;
  return (
    <div class="row-menu">
      <Menu label={label} items={allowed} class="quiet icon-button">
        <Icon name="dots" />
      </Menu>
    </div>
  );
}

/** An item that shows another page. */
export function pageItem(label: string, page: string, query: Readonly<Record<string, string>>): MenuItem {
  return { label, isReading: true, onSelect: () => go(page, query) };
}
