import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** Refresh interval of data that changes with every request but is not urgent. */
export const slowRefreshMs = 30_000;

export interface Data<T> {
  /** The last value read for the current `deps`; null before the first answer. */
  readonly value: T | null;
  /** Why the last read failed; null if it succeeded. */
  readonly error: Error | null;
  readonly reload: () => void;
}

/**
 * Reads now, again when one of `deps` changes, and every `refreshMs` while the tab is visible. A value stays until a
 * newer one arrives or `deps` change.
 */
export function useData<T>(
  read: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  refreshMs: number | null = null,
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
      if (refreshMs === null) return;
      timer = setTimeout(() => (document.hidden ? later() : void once()), refreshMs);
    };
    void once();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...deps, round, refreshMs]);
  const value = valueFor(last, deps);
  const error = isOf(last, deps) ? last.error : null;
  return { value, error, reload: useCallback(() => setRound((before) => before + 1), []) };
}

const busyRefreshMs = 2_000;
const idleRefreshMs = 10_000;

/** Like `useData`, refreshing often while `isBusy` says that the value is about to change. */
export function useLiveData<T>(
  read: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  isBusy: (value: T) => boolean,
): Data<T> {
  const [busy, setBusy] = useState(true);
  const readAndCheck = async (signal: AbortSignal): Promise<T> => {
    const value = await read(signal);
    setBusy(isBusy(value));
    return value;
  };
  return useData(readAndCheck, deps, busy ? busyRefreshMs : idleRefreshMs);
}

/** A value with the `deps` that it was read for, so that it is never shown for other `deps`. */
interface Reading<T> {
  readonly deps: readonly unknown[] | null;
  readonly value: T | null;
  readonly error: Error | null;
}

function valueFor<T>(reading: Reading<T>, deps: readonly unknown[]): T | null {
  return isOf(reading, deps) ? reading.value : null;
}

/** Whether the value was read for these `deps`; compares them by identity, as hooks do. */
function isOf(reading: Reading<unknown>, deps: readonly unknown[]): boolean {
  return reading.deps?.every((dep, index) => Object.is(dep, deps[index])) ?? false;
}
