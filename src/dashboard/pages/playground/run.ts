/** Runs one request at a time and measures its speed. */
import { useEffect, useRef, useState } from "preact/hooks";

/** Speed of a finished or stopped answer. */
export interface Speed {
  readonly totalMs: number;
  /** Null if no token arrived. */
  readonly firstTokenMs: number | null;
  /** The service's count; for a stopped answer, the number of pieces received. */
  readonly tokens: number;
  /** Rate after the first token; null if there was only one. */
  readonly tokensPerSecond: number | null;
}

/** Records the pieces of an answer. */
export interface Meter {
  /** Records a piece of text or of a tool call. */
  readonly piece: () => void;
  /** Records the service's count of generated tokens. */
  readonly counted: (tokens: number) => void;
}

export type RunState = "idle" | "running" | "done" | "stopped" | "failed";

export interface Run {
  readonly state: RunState;
  readonly error: Error | null;
  readonly speed: Speed | null;
  /** Starts the work, which the signal aborts; does nothing while other work is running. */
  readonly start: (work: (signal: AbortSignal, meter: Meter) => Promise<void>) => void;
  /** Aborts the request, which also stops generation in the service. */
  readonly stop: () => void;
  /** Clears the result of the last run. */
  readonly reset: () => void;
}

export function useRun(): Run {
  const [state, setState] = useState<RunState>("idle");
  const [error, setError] = useState<Error | null>(null);
  const [speed, setSpeed] = useState<Speed | null>(null);
  const stopper = useRef<AbortController | null>(null);
  const stop = (): void => stopper.current?.abort();
  useEffect(() => stop, []);
  const reset = (): void => {
    setState("idle");
    setError(null);
    setSpeed(null);
  };
  const start: Run["start"] = (work) => {
    // Ctrl+Enter can arrive before the disabled button is rendered.
    if (stopper.current !== null) return;
    const own = new AbortController();
    const { signal } = own;
    stopper.current = own;
    const times = startTimes();
    reset();
    setState("running");
    work(signal, times)
      .then(
        () => setState("done"),
        (thrown: unknown) => {
          setState(signal.aborted ? "stopped" : "failed");
          if (!signal.aborted) setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
        },
      )
      .finally(() => {
        stopper.current = null;
        setSpeed(times.speed());
      });
  };
  return { state, error, speed, start, stop, reset };
}

function startTimes(): Meter & { readonly speed: () => Speed } {
  const startMs = performance.now();
  let firstMs: number | null = null;
  let pieces = 0;
  let tokens = 0;
  return {
    piece: () => {
      firstMs ??= performance.now();
      pieces += 1;
    },
    counted: (count) => {
      tokens = count;
    },
    speed: () => speedOf({ startMs, firstMs, endMs: performance.now(), tokens: tokens === 0 ? pieces : tokens }),
  };
}

export interface Times {
  readonly startMs: number;
  readonly firstMs: number | null;
  readonly endMs: number;
  readonly tokens: number;
}

/** The first token is excluded from the rate, because it includes reading the prompt. */
export function speedOf({ startMs, firstMs, endMs, tokens }: Times): Speed {
  const restMs = firstMs === null ? 0 : endMs - firstMs;
  return {
    totalMs: endMs - startMs,
    firstTokenMs: firstMs === null ? null : firstMs - startMs,
    tokens,
    tokensPerSecond: tokens > 1 && restMs > 0 ? ((tokens - 1) * 1_000) / restMs : null,
  };
}
