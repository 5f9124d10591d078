/** One answer at a time, with how fast it came. */
import { useEffect, useRef, useState } from "preact/hooks";

/** Of an answer that has ended or was stopped. */
export interface Speed {
  readonly totalMs: number;
  /** null: nothing came. */
  readonly firstTokenMs: number | null;
  /** As the service counted them; of a stopped answer, the pieces that came. */
  readonly tokens: number;
  /** Of what came after the first token; null where that is nothing. */
  readonly tokensPerSecond: number | null;
}

/** Tells the run what came. */
export interface Meter {
  /** A piece of text or of a call. */
  readonly piece: () => void;
  /** Generated tokens, as the service counted them. */
  readonly counted: (tokens: number) => void;
}

export type RunState = "idle" | "running" | "done" | "stopped" | "failed";

export interface Run {
  readonly state: RunState;
  readonly error: Error | null;
  readonly speed: Speed | null;
  /** Does the work until it is done or the signal aborts it; nothing while other work is under way. */
  readonly start: (work: (signal: AbortSignal, meter: Meter) => Promise<void>) => void;
  /** Aborts it, and with it the work of the service. */
  readonly stop: () => void;
  /** Forgets how the last one ended. */
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
    // A key press comes before the button that would refuse it is drawn.
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

/** The first token is no part of the rate: it waited for the prompt. */
export function speedOf({ startMs, firstMs, endMs, tokens }: Times): Speed {
  const restMs = firstMs === null ? 0 : endMs - firstMs;
  return {
    totalMs: endMs - startMs,
    firstTokenMs: firstMs === null ? null : firstMs - startMs,
    tokens,
    tokensPerSecond: tokens > 1 && restMs > 0 ? ((tokens - 1) * 1_000) / restMs : null,
  };
}
