import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon.js";

/** An error message; screen readers announce it when it appears. */
export function Problem({ error, onRetry }: { readonly error: Error | null; readonly onRetry?: () => void }) {
  if (error === null) return null;
  return (
    <div class="problem" role="alert">
      <span>{error.message}</span>
      {onRetry !== undefined && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export interface EmptyProps {
  /** With a title the message fills a panel, for a list that was never used. */
  readonly title?: string;
  readonly icon?: IconName;
  /** The button or link that adds the first entry. */
  readonly action?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** Shown in place of an empty list: explains the list and how to add an entry. */
export function Empty({ title, icon, action, children }: EmptyProps) {
  if (title === undefined) return <p class="empty">{children}</p>;
  return (
    <section class="empty-state">
      {icon !== undefined && <Icon name={icon} />}
      <h2>{title}</h2>
      <p>{children}</p>
      {action}
    </section>
  );
}

export function Loading() {
  return (
    <p class="empty" role="status">
      Loading…
    </p>
  );
}

export type Tone = "good" | "bad" | "busy" | "plain";

/** A status word; its colour adds no information. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}
