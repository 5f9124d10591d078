import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** How often to read again what changes with every request, and nobody waits for. */
export const slowlyMs = 30_000;

export interface Data<T> {
  /** What was read last of what is asked for now; null before the first answer. */
  readonly value: T | null;
  /** Why the last reading failed; null when it did not. */
  readonly error: Error | null;
  /** Reads again. */
  readonly reload: () => void;
}

/** What was read, with what it was asked for: it must never stand under the name of something else. */
interface Reading<T> {
  readonly deps: readonly unknown[] | null;
  readonly value: T | null;
  readonly error: Error | null;
}

/**
 * Reads at once, again when one of `deps` changes, and every `everyMs` while the page can be seen. What was read stays
 * until something newer is there or `deps` change; a later reading that ends first wins.
 */
export function useData<T>(
  read: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  everyMs: number | null = null,
): Data<T> {
  const [last, setLast] = useState<Reading<T>>({ deps: null, value: null, error: null });
  const [round, setRound] = useState(0);
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const once = async (): Promise<void> => {
      try {
        const value = await reader.current(stop.signal);
        if (stop.signal.aborted) return;
        setLast({ deps, value, error: null });
      } catch (thrown) {
        if (stop.signal.aborted) return;
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        setLast((before) => ({ deps, value: valueFor(before, deps), error }));
      }
      later();
    };
    const later = (): void => {
      if (everyMs === null) return;
      timer = setTimeout(() => (document.hidden ? later() : void once()), everyMs);
    };
    void once();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...deps, round, everyMs]);
  const value = valueFor(last, deps);
  const error = isOf(last, deps) ? last.error : null;
  return { value, error, reload: useCallback(() => setRound((before) => before + 1), []) };
}

function valueFor<T>(reading: Reading<T>, deps: readonly unknown[]): T | null {
  return isOf(reading, deps) ? reading.value : null;
}

/** As the hooks compare: one by one, by identity. */
function isOf(reading: Reading<unknown>, deps: readonly unknown[]): boolean {
  return reading.deps?.every((dep, index) => Object.is(dep, deps[index])) ?? false;
}
