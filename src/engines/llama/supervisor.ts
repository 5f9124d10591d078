import type { Clock, Logger } from "../../domain/call/ports.js";
import { EngineError } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { StartChild } from "./child-process.js";
import { ChildSession, type SessionEnd } from "./child-session.js";
import { abortedError, unloadedError } from "./protocol/call-errors.js";
import type { ChildModel, LoadedFacts } from "./protocol/protocol.js";

export interface SupervisorDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly startChild: StartChild;
  readonly stallMs: number;
  /** Crashes in five minutes after which one more opens the circuit. */
  readonly circuitCrashes: number;
}

type State =
  | { readonly name: "loading"; readonly session: ChildSession; readonly isProbe: boolean }
  | { readonly name: "ready"; readonly session: ChildSession; readonly sinceMs: number }
  | { readonly name: "restarting" }
  /** The circuit is open: calls are refused until a probe may be made. */
  | { readonly name: "cooling"; readonly untilMs: number }
  | { readonly name: "stopped"; readonly error: EngineError };

interface Waiter {
  resolve(session: ChildSession): void;
  reject(error: EngineError): void;
}

/** `Retry-After` of calls that got no child in time. */
const restartRetryMs = 5_000;
const retryMinMs = 1_000;
/** Longest advised wait: clients ignore longer ones (RETRY-1). */
const retryMaxMs = 60_000;

/**
 * Keeps one model's child alive (REL-4). A child that dies or hangs is restarted after a short delay, and calls wait for
 * the new one. After too many crashes, or when the model cannot be loaded, the circuit breaker opens: calls are rejected
 * with the time of the next probe; if the probe loads, the breaker closes.
 *
 *     loading -> ready -> restarting -> loading ...        a crash
 *     ready or loading -> cooling -> loading (probe) -> ready, or cooling again
 */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #model: ChildModel;
  readonly #circuit: CircuitBreaker;
  readonly #delay = new RestartDelay();
  readonly #waiters = new Set<Waiter>();
  #state: State = { name: "restarting" };
  #cancelTimer: () => void = () => {};
  #facts: LoadedFacts | null = null;
  #lostAtMs = Number.NEGATIVE_INFINITY;
  #restarts = 0;
  #onProgress: (share: number) => void = () => {};

  constructor(deps: SupervisorDeps, model: ChildModel) {
    this.#deps = deps;
    this.#model = model;
    this.#circuit = new CircuitBreaker(deps.circuitCrashes);
  }

  /** How often a child was started again. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Last sign of life of the child that was lost last, on the monotonic clock; -Infinity before any loss. */
  get lostAtMs(): number {
    return this.#lostAtMs;
  }

  /** Whether `session` gives a child at once. */
  get isReady(): boolean {
    return this.#state.name === "ready";
  }

  get isStopped(): boolean {
    return this.#state.name === "stopped";
  }

  /**
   * Starts the first child. Resolves when it has loaded the model; rejects with EngineError `model_not_loaded` or
   * `aborted`, and no child is left then. Called once, before anything else.
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
    if (this.#facts === null) throw new EngineError("internal", "a child is ready, but told nothing about its model");
    return this.#facts;
  }

  /**
   * The child that runs now, or the one that is being started, `waitMs` at most. Rejects with a retryable EngineError
   * while the circuit is open, when none came in time and after `stop`, and with `aborted` when the signal aborts.
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

  /** Ends the child and starts no more. Calls that are still running fail. */
  async stop(): Promise<void> {
    const last = this.#state;
    this.#cancelTimer();
    this.#stopWith(unloadedError(this.#model.id));
    if (last.name === "loading" || last.name === "ready") await last.session.close();
  }

  #nextSession(signal: AbortFlag, waitMs: number | null): Promise<ChildSession> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        cancelTimer();
        signal.removeEventListener("abort", onAbort);
        this.#waiters.delete(waiter);
      };
      const waiter: Waiter = {
        resolve(session) {
          settle();
          resolve(session);
        },
        reject(error) {
          settle();
          reject(error);
        },
      };
      const onAbort = (): void => waiter.reject(abortedError(signal));
      const cancelTimer =
        waitMs === null ? () => {} : this.#deps.clock.after(waitMs, () => waiter.reject(this.#lateError()));
      signal.addEventListener("abort", onAbort);
      this.#waiters.add(waiter);
    });
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
    this.#deps.log.info(
      { model: this.#model.id, pid: session.pid, restarts: this.#restarts },
      "engine process has loaded its model",
    );
    for (const waiter of this.#waiters) waiter.resolve(session);
  }

  #onEnded(session: ChildSession, end: SessionEnd): void {
    const last = this.#state;
    if (last.name === "stopped") return;
    const { why, detail, lastLines } = end;
    if (last.name === "ready") this.#lostAtMs = end.sinceMs;
    this.#deps.log.warn(
      { model: this.#model.id, pid: session.pid, why, detail, last_lines: lastLines },
      "engine process ended",
    );
    if (this.#facts === null) this.#stopWith(this.#firstLoadError(end));
    else this.#recover(last, end);
  }

  #recover(last: State, end: SessionEnd): void {
    const nowMs = this.#deps.clock.monotonic();
    const isTooOften = this.#circuit.crashed(nowMs);
    const isFailedProbe = last.name === "loading" && last.isProbe;
    if (isTooOften || isFailedProbe || end.why === "failed_load") {
      this.#openCircuit(nowMs);
      return;
    }
    this.#state = { name: "restarting" };
    const delayMs = this.#delay.after(last.name === "ready" ? nowMs - last.sinceMs : 0);
    // A child that hung has kept its callers waiting for the whole stall limit already.
    this.#restartAfter(end.why === "hung" ? 0 : delayMs, false);
  }

  #openCircuit(nowMs: number): void {
    const coolDownMs = this.#circuit.open(nowMs);
    this.#deps.log.error(
      { model: this.#model.id, cool_down_ms: coolDownMs },
      "engine process fails again and again, calls are refused until it is tried again",
    );
    const untilMs = nowMs + coolDownMs;
    this.#state = { name: "cooling", untilMs };
    this.#restartAfter(coolDownMs, true);
    for (const waiter of this.#waiters) waiter.reject(this.#circuitError(untilMs));
  }

  #restartAfter(delayMs: number, isProbe: boolean): void {
    this.#cancelTimer = this.#deps.clock.after(delayMs, () => {
      this.#restarts += 1;
      this.#deps.log.info({ model: this.#model.id, restarts: this.#restarts }, "engine process is started again");
      this.#start(isProbe);
    });
  }

  #stopWith(error: EngineError): void {
    if (this.#state.name === "stopped") return;
    this.#state = { name: "stopped", error };
    for (const waiter of this.#waiters) waiter.reject(error);
  }

  #firstLoadError({ why, detail, lastLines }: SessionEnd): EngineError {
    const last = lastLines.at(-1);
    const wrote = last === undefined ? "" : `; it wrote last: ${last}`;
    const told = why === "failed_load" ? detail : `the process that loads it ${detail}${wrote}`;
    return new EngineError("model_not_loaded", `the model '${this.#model.id}' could not be loaded: ${told}`);
  }

  #circuitError(untilMs: number): EngineError {
    const leftMs = untilMs - this.#deps.clock.monotonic();
    const retryAfterMs = Math.min(retryMaxMs, Math.max(retryMinMs, leftMs));
    return new EngineError("model_not_loaded", `the engine process of '${this.#model.id}' failed too often`, {
      retryable: true,
      retryAfterMs,
    });
  }

  #lateError(): EngineError {
    return new EngineError("model_loading", `the engine process of '${this.#model.id}' is being restarted`, {
      retryable: true,
      retryAfterMs: restartRetryMs,
    });
  }
}

/** Crashes are counted over this long. */
const windowMs = 300_000;
const coolDownMinMs = 10_000;
const coolDownMaxMs = 300_000;

/**
 * Circuit breaker for the restarts of one model's child. It opens at more than `crashesMax` crashes in
 * five minutes, cools down for 10 s, and for twice as long each time it opens again, up to five minutes; five minutes
 * after a cool-down it begins at 10 s again.
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
/** A child that lived this long after its load was healthy. */
const healthyMs = 10_000;

/** How long to wait before a child is started again: 100 ms after a healthy life, twice as long after each short one, 5 s at most. */
export class RestartDelay {
  #shortLives = 0;

  /** `lifeMs`: since the model was loaded; 0 when it never was. */
  after(lifeMs: number): number {
    if (lifeMs >= healthyMs) this.#shortLives = 0;
    return Math.min(delayMaxMs, delayMinMs * 2 ** this.#shortLives++);
  }
}
