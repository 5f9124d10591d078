import { AbortSource } from "../../lib/abort-source.js";
import { type Clock, type Logger, pause } from "../call/ports.js";
import type { Capabilities, LoadedModel } from "../engine/engine.js";

/** Interval of the checks for use, as a share of the keep-alive time: a model is unloaded at most this much too late. */
const checkShare = 0.25;
const checkMinMs = 50;
/**
 * Delay between taking a model out of use and unloading it: requests that are counting their prompt with it can finish the
 * count.
 */
const counterGraceMs = 1_000;
/** Time in which calls that last longer than `counterGraceMs` may finish. */
const unloadGraceMs = 120_000;
/** Delay after a failed load before another request may load the model again. */
const retryAfterFailureMs = 10_000;

interface IdleUnloadDeps {
  readonly clock: Pick<Clock, "monotonic">;
  readonly backgroundClock: Pick<Clock, "after">;
  readonly log: Logger;
}

/** The deployment whose model is unloaded. */
interface IdleDeployment {
  readonly id: string;
  readonly outstandingRequests: number;
  readonly failure: Error | null;
  unloadIdle(): LoadedModel | null;
}

/**
 * Unloads the model of a deployment that had no request for its keep-alive time. The next request loads it again and waits,
 * as for a model that is loading at the start of the service. There is no timer while it is unloaded.
 */
export class IdleUnload {
  /** Capabilities of the model that was unloaded; null while it is loaded, or before its first load. */
  caps: Capabilities | null = null;
  /** Resolves when the last unload has freed the model's memory. */
  unloaded: Promise<void> = Promise.resolve();
  readonly #deps: IdleUnloadDeps;
  readonly #deployment: IdleDeployment;
  readonly #keepAliveMs: number;
  readonly #closing = new AbortSource();
  #cancelTimer = (): void => {};
  readonly #granted: () => number;
  #grantedBefore = 0;
  #usedAtMs = 0;
  #loadBeganAtMs: number | null = null;
  #loadedCaps: Capabilities | null = null;

  /** `granted`: slots that the deployment's model has granted so far. */
  constructor(deps: IdleUnloadDeps, deployment: IdleDeployment, keepAliveMs: number, granted: () => number) {
    this.#granted = granted;
    this.#deps = deps;
    this.#deployment = deployment;
    this.#keepAliveMs = keepAliveMs;
  }

  /** Whether the model is unloaded and no request has begun to load it. */
  get isUnloaded(): boolean {
    return this.caps !== null && this.#loadBeganAtMs === null;
  }

  /** Call after each load. */
  loaded(caps: Capabilities): void {
    this.caps = null;
    this.#loadedCaps = caps;
    this.#loadBeganAtMs = null;
    this.#grantedBefore = this.#granted();
    this.#usedAtMs = this.#deps.clock.monotonic();
    this.#schedule();
  }

  /** Records that a load begins, and returns true, if the model is unloaded or its last load failed 10 s ago or earlier. */
  beginLoadIfDue(): boolean {
    if (this.caps === null || this.#closing.aborted) return false;
    const nowMs = this.#deps.clock.monotonic();
    const hasBegun = this.#loadBeganAtMs !== null;
    const mayRetry = this.#deployment.failure !== null && nowMs - (this.#loadBeganAtMs ?? 0) >= retryAfterFailureMs;
    if (hasBegun && !mayRetry) return false;
    this.#loadBeganAtMs = nowMs;
    this.#deps.log.info({ deployment: this.#deployment.id }, "loading a model again for a request");
    return true;
  }

  /** Cancels the timer and waits for an unload in progress. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the deployment is removed"));
    this.#cancelTimer();
    await this.unloaded;
  }

  #schedule(): void {
    if (this.#closing.aborted) return;
    const checkMs = Math.max(checkMinMs, this.#keepAliveMs * checkShare);
    this.#cancelTimer = this.#deps.backgroundClock.after(checkMs, () => this.#check());
  }

  #check(): void {
    const nowMs = this.#deps.clock.monotonic();
    const granted = this.#granted();
    if (granted !== this.#grantedBefore || this.#deployment.outstandingRequests > 0) this.#usedAtMs = nowMs;
    this.#grantedBefore = granted;
    if (nowMs - this.#usedAtMs < this.#keepAliveMs) {
      this.#schedule();
      return;
    }
    this.caps = this.#loadedCaps;
    const model = this.#deployment.unloadIdle();
    if (model !== null) this.unloaded = this.#unload(model);
  }

  async #unload(model: LoadedModel): Promise<void> {
    const { log, backgroundClock } = this.#deps;
    const deployment = this.#deployment.id;
    await pause(backgroundClock, counterGraceMs, this.#closing);
    try {
      await model.unload(unloadGraceMs);
      log.info({ deployment, keep_alive_ms: this.#keepAliveMs }, "model is unloaded because nobody used it");
    } catch (err) {
      log.error({ deployment, err }, "an unused model could not be unloaded");
    }
  }
}
