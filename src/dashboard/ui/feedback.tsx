import type { ComponentChildren } from "preact";

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

/** Shown in place of an empty list: what belongs there and how to add it. */
export function Empty({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
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
