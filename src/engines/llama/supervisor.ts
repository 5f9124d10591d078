import type { Logger } from "../../domain/call/ports.js";
import { EngineError } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { ChildSession, type SessionDeps, type SessionEnd } from "./child-session.js";
import { abortedError, type ChildModel, type LoadedFacts } from "./protocol/protocol.js";

export interface SupervisorDeps extends SessionDeps {
  readonly log: Logger;
  /** Crashes in five minutes that the circuit breaker tolerates; one more opens it. */
  readonly circuitCrashes: number;
}

type State =
  | { readonly name: "loading"; readonly session: ChildSession; readonly isProbe: boolean }
  | { readonly name: "ready"; readonly session: ChildSession; readonly sinceMs: number }
  | { readonly name: "restarting" }
  /** The circuit breaker is open: calls are rejected until the next probe. */
  | { readonly name: "cooling"; readonly untilMs: number }
  | { readonly name: "stopped"; readonly error: EngineError };

type Waiter = (result: ChildSession | EngineError) => void;

/** `Retry-After` of calls for which no child was ready in time. */
const restartRetryMs = 5_000;
const retryMinMs = 1_000;
/** Longest advised wait: clients ignore longer ones (RETRY-1). */
const retryMaxMs = 60_000;

export function unloadedError(modelId: string): EngineError {
  return new EngineError("model_not_loaded", `the model '${modelId}' was unloaded`, { retryable: true });
}

/**
 * Keeps one model's child alive (REL-4). A child that dies or hangs is restarted after a short delay, and calls wait for
 * the new one. After too many crashes, or when the model cannot be loaded, the circuit breaker opens: calls are rejected
 * with the time of the next probe; if the probe loads, the breaker closes.
 *
 *     loading -> ready -> restarting -> loading ...        a crash
 *     ready or loading -> cooling -> loading (probe) -> ready, or cooling again
 */
export class Supervisor {
  /** Number of starts of a child after the first. */
  restarts = 0;
  /** Time of the most recently lost child's last message, on the monotonic clock; -Infinity before any loss. */
  lostAtMs = Number.NEGATIVE_INFINITY;
  readonly #deps: SupervisorDeps;
  readonly #model: ChildModel;
  readonly #circuit: CircuitBreaker;
  readonly #delay = new RestartDelay();
  readonly #waiters = new Set<Waiter>();
  #state: State = { name: "restarting" };
  #cancelTimer: () => void = () => {};
  #facts: LoadedFacts | null = null;
  #onProgress: (share: number) => void = () => {};

  constructor(deps: SupervisorDeps, model: ChildModel) {
    this.#deps = deps;
    this.#model = model;
    this.#circuit = new CircuitBreaker(deps.circuitCrashes);
  }

  /** Whether `session` returns a child without a wait. */
  get isReady(): boolean {
    return this.#state.name === "ready";
  }

  /** Resident memory of the child; 0 without one. */
  get memoryBytes(): number {
    return this.#state.name === "ready" ? this.#state.session.memoryBytes : 0;
  }

  get isStopped(): boolean {
    return this.#state.name === "stopped";
  }

  /**
   * Starts the first child. Resolves when it has loaded the model; rejects with EngineError `model_not_loaded` or
   * `aborted` after ending the child. Called once, before any other method.
   */
  async load(onProgress: (share: number) => void, signal: AbortSignal): Promise<LoadedFacts> {
    this.#onProgress = onProgress;
    if (signal.aborted) throw abortedError(signal);
    this.#start(false);
    try {
      await this.#nextSession(signal, null);
    } catch (error) {
      await this.stop();
      throw error;
    }
    if (this.#facts === null) throw new EngineError("internal", "a child is ready, but its model has no facts");
    return this.#facts;
  }

  /**
   * Returns the current child, or waits up to `waitMs` for the one that is being started. Rejects with a retryable EngineError
   * if the circuit breaker is open, if no child is ready in time and after `stop`, and with `aborted`.
   */
  session(signal: AbortFlag, waitMs: number): Promise<ChildSession> {
    if (signal.aborted) return Promise.reject(abortedError(signal));
    switch (this.#state.name) {
      case "ready":
        return Promise.resolve(this.#state.session);
      case "cooling":
        return Promise.reject(this.#circuitError(this.#state.untilMs));
      case "stopped":
        return Promise.reject(this.#state.error);
      default:
        return this.#nextSession(signal, waitMs);
    }
  }

  /** Ends the child and starts no other. Running calls fail. */
  async stop(): Promise<void> {
    const last = this.#state;
    this.#cancelTimer();
    this.#stopWith(unloadedError(this.#model.id));
    if (last.name === "loading" || last.name === "ready") await last.session.close();
  }

  #nextSession(signal: AbortFlag, waitMs: number | null): Promise<ChildSession> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = (result) => {
        cancelTimer();
        signal.removeEventListener("abort", onAbort);
        this.#waiters.delete(waiter);
        if (result instanceof EngineError) reject(result);
        else resolve(result);
      };
      const onAbort = (): void => waiter(abortedError(signal));
      const cancelTimer = waitMs === null ? () => {} : this.#deps.clock.after(waitMs, () => waiter(this.#lateError()));
      signal.addEventListener("abort", onAbort);
      this.#waiters.add(waiter);
    });
  }

  #settleWaiters(result: ChildSession | EngineError): void {
    for (const waiter of this.#waiters) waiter(result);
  }

  #start(isProbe: boolean): void {
    const session = new ChildSession(this.#deps, this.#model, {
      onProgress: (share) => this.#onProgress(share),
      onLoaded: (facts) => this.#onLoaded(session, facts),
      onEnded: (end) => this.#onEnded(session, end),
    });
    this.#state = { name: "loading", session, isProbe };
  }

  #onLoaded(session: ChildSession, facts: LoadedFacts): void {
    this.#facts = facts;
    this.#onProgress = () => {};
    this.#state = { name: "ready", session, sinceMs: this.#deps.clock.monotonic() };
    const fields = { model: this.#model.id, pid: session.pid, restarts: this.restarts };
    this.#deps.log.info(fields, "engine process has loaded its model");
    this.#settleWaiters(session);
  }

  #onEnded({ pid }: ChildSession, end: SessionEnd): void {
    const last = this.#state;
    if (last.name === "stopped") return;
    const { why, detail, lastLines } = end;
    if (last.name === "ready") this.lostAtMs = end.sinceMs;
    const fields = { model: this.#model.id, pid, why, detail, last_lines: lastLines };
    this.#deps.log.warn(fields, "engine process ended");
    if (this.#facts === null) this.#stopWith(this.#firstLoadError(end));
    else this.#recover(last, end);
  }

  #recover(last: State, { why }: SessionEnd): void {
    const nowMs = this.#deps.clock.monotonic();
    const isTooOften = this.#circuit.crashed(nowMs);
    const isFailedProbe = last.name === "loading" && last.isProbe;
    if (isTooOften || isFailedProbe || why === "failed_load") {
      this.#openCircuit(nowMs);
      return;
    }
    this.#state = { name: "restarting" };
    const delayMs = this.#delay.after(last.name === "ready" ? nowMs - last.sinceMs : 0);
    // Callers of a hung child have already waited for the whole stall limit, so it restarts without delay.
    this.#restartAfter(why === "hung" ? 0 : delayMs, false);
  }

  #openCircuit(nowMs: number): void {
    const coolDownMs = this.#circuit.open(nowMs);
    this.#deps.log.error(
      { model: this.#model.id, cool_down_ms: coolDownMs },
      "engine process failed too often: calls are rejected until the next try",
    );
    const untilMs = nowMs + coolDownMs;
    this.#state = { name: "cooling", untilMs };
    this.#restartAfter(coolDownMs, true);
    this.#settleWaiters(this.#circuitError(untilMs));
  }

  #restartAfter(delayMs: number, isProbe: boolean): void {
    this.#cancelTimer = this.#deps.clock.after(delayMs, () => {
      this.restarts += 1;
      this.#deps.log.info({ model: this.#model.id, restarts: this.restarts }, "engine process is started again");
      this.#start(isProbe);
    });
  }

  #stopWith(error: EngineError): void {
    if (this.#state.name === "stopped") return;
    this.#state = { name: "stopped", error };
    this.#settleWaiters(error);
  }

  #firstLoadError({ why, detail, lastLines }: SessionEnd): EngineError {
    const last = lastLines.at(-1);
    const wrote = last === undefined ? "" : `; it wrote last: ${last}`;
    const cause = why === "failed_load" ? detail : `the process that loads it ${detail}${wrote}`;
    return new EngineError("model_not_loaded", `the model '${this.#model.id}' could not be loaded: ${cause}`);
  }

  #circuitError(untilMs: number): EngineError {
    const leftMs = untilMs - this.#deps.clock.monotonic();
    return new EngineError("model_not_loaded", `the engine process of '${this.#model.id}' failed too often`, {
      retryable: true,
      retryAfterMs: Math.min(retryMaxMs, Math.max(retryMinMs, leftMs)),
    });
  }

  #lateError(): EngineError {
    return new EngineError("model_loading", `the engine process of '${this.#model.id}' is being restarted`, {
      retryable: true,
      retryAfterMs: restartRetryMs,
    });
  }
}

/** Period over which crashes are counted. */
const windowMs = 300_000;
const coolDownMinMs = 10_000;
const coolDownMaxMs = 300_000;

/**
 * Circuit breaker for the restarts of one model's child. It opens at more than `crashesMax` crashes in
 * five minutes and stays open for 10 s, and for twice as long each time it opens again, up to five minutes. Five minutes
 * after such a cool-down the time is 10 s again.
 */
export class CircuitBreaker {
  readonly #crashesMax: number;
  #crashesAtMs: number[] = [];
  #openings = 0;
  #openUntilMs = Number.NEGATIVE_INFINITY;

  constructor(crashesMax: number) {
    this.#crashesMax = crashesMax;
  }

  /** Counts a crash. True: the limit is exceeded, the breaker must open. */
  crashed(nowMs: number): boolean {
    this.#crashesAtMs = this.#crashesAtMs.filter((atMs) => atMs > nowMs - windowMs);
    this.#crashesAtMs.push(nowMs);
    return this.#crashesAtMs.length > this.#crashesMax;
  }

  /** Opens the breaker; returns the cool-down in milliseconds. */
  open(nowMs: number): number {
    if (nowMs - this.#openUntilMs > windowMs) this.#openings = 0;
    const coolDownMs = Math.min(coolDownMaxMs, coolDownMinMs * 2 ** this.#openings++);
    this.#openUntilMs = nowMs + coolDownMs;
    return coolDownMs;
  }
}

const delayMinMs = 100;
const delayMaxMs = 5_000;
/** A child that ran this long after its load counts as healthy. */
const healthyMs = 10_000;

/** Delay before a restart: 100 ms after a healthy child, doubled after each short-lived one, 5 s at most. */
export class RestartDelay {
  #shortLives = 0;

  /** `lifeMs`: time since the model was loaded; 0 if it was not. */
  after(lifeMs: number): number {
    if (lifeMs >= healthyMs) this.#shortLives = 0;
    return Math.min(delayMaxMs, delayMinMs * 2 ** this.#shortLives++);
  }
}
