import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Data<T> {
  /** What was read last; null before the first answer. */
  readonly value: T | null;
  /** Why the last reading failed; null when it did not. */
  readonly error: Error | null;
  /** Reads again. */
  readonly reload: () => void;
}

/**
 * Reads at once, again when one of `deps` changes, and every `everyMs` while the page can be seen. What was read stays
 * until something newer is there; a later reading that ends first wins.
 */
export function useData<T>(
  read: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  everyMs: number | null = null,
): Data<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [round, setRound] = useState(0);
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isFirst = true;
    const once = async (): Promise<void> => {
      try {
        if (!document.hidden || isFirst) setValue(await reader.current(stop.signal));
        isFirst = false;
        setError(null);
      } catch (thrown) {
        if (stop.signal.aborted) return;
        setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
      }
      if (everyMs !== null && !stop.signal.aborted) timer = setTimeout(() => void once(), everyMs);
    };
    void once();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...deps, round, everyMs]);
  return { value, error, reload: useCallback(() => setRound((before) => before + 1), []) };
}
