import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon, type IconName } from "./icon.js";

const icons = { info: "info", busy: "alert", bad: "alert", good: "check-circle" } as const satisfies Record<
  string,
  IconName
>;

export interface NoticeProps {
  readonly tone: keyof typeof icons;
  readonly children: ComponentChildren;
  /** Shows a button that dismisses the notice. */
  readonly onDismiss?: () => void;
}

/** One line of advice or state above a page's content. */
export function Notice({ tone, children, onDismiss }: NoticeProps) {
  return (
    <div class={`notice notice-${tone}`}>
      <Icon name={icons[tone]} />
      <div class="notice-text">{children}</div>
      {onDismiss !== undefined && (
        <button type="button" class="quiet icon-button" aria-label="Dismiss" onClick={onDismiss}>
          <Icon name="close" />
        </button>
      )}
    </div>
  );
}

const storageKey = "uis.dismissed";
/** The most dismissals that are stored; the oldest are dropped. */
const dismissedMax = 50;

/** Ids of the notices that were dismissed in this browser, and a function that dismisses one more. */
export function useDismissed(): readonly [ids: ReadonlySet<string>, dismiss: (id: string) => void] {
  const [ids, setIds] = useState(dismissed);
  const dismiss = (id: string): void => {
    const next = [...dismissed().filter((other) => other !== id), id].slice(-dismissedMax);
    try {
      window.localStorage.setItem(storageKey, JSON.stringify(next));
    } catch {
      // Storage may be full or forbidden: then it stays dismissed until the page is loaded again.
    }
    setIds(next);
  };
  return [new Set(ids), dismiss];
}

function dismissed(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(window.localStorage.getItem(storageKey) ?? "[]");
    return Array.isArray(stored) ? stored.filter((id): id is string => typeof id === "string") : [];
  } catch {
    return [];
  }
}
