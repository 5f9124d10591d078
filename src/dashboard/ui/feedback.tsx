import type { ComponentChildren } from "preact";

/** A failure in the service's own words; read out when it appears. */
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

/** What is shown where a list is empty: what belongs here, and how to make the first. */
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

/** A state in one word; its colour says nothing that the word does not. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}
