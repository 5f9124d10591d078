import { CircuitBreaker } from "../call/circuit-breaker.js";
import { type ChangeFeed, type Clock, type Logger, pause } from "../call/ports.js";
import type { WebhookObserver, WebhookSender } from "./delivery.js";
import { DeliveryAttempts, StoreRetries, waitAfter } from "./delivery-attempts.js";
import type { Claim, DeliveryQueue } from "./delivery-queue.js";
import { EndpointBook, FailingEndpoints, type SecretOpener } from "./endpoint-book.js";
import type { EndpointStore } from "./endpoint-store.js";

/** Poll interval without a wake-up: other processes also create deliveries. */
const idleMs = 1_000;
/** Minimum delay after an empty claim. */
const emptyClaimDelayMs = 5;
/** Attempts started together, while requests run and without. */
const batchSizes = { serving: 4, alone: 16 } as const;
/**
 * While requests run, pause for twice the last batch's duration, so that deliveries do not slow requests down (WH-52).
 */
const pauseFactor = 2;
const pauseMaxMs = 20;
/** Drain time of `close`; afterwards claims are released. In total at most 6 s. */
const drainMs = 5_400;
const releaseMs = 400;
/** Part of the lease beyond the attempt, to record the result on a slow store (WH-34). */
const leaseReserveMs = 5_000;

export interface DispatcherSettings {
  /** Time budget of an attempt, from the name look-up to the response headers. */
  readonly budgetMs: number;
  /** Delay before each retry. */
  readonly retryDelaysMs: readonly number[];
  /** Lease of a claim: at least the budget plus 5 s. */
  readonly leaseMs: number;
  /** Maximum concurrent attempts, 1 to 64. */
  readonly inFlightMax: number;
  /** Time without a success after which an endpoint is disabled (WH-38); 0: never. */
  readonly disableAfterMs: number;
}

export interface DispatcherDeps {
  readonly queue: Pick<DeliveryQueue, "claim" | "finish" | "handBack" | "onDue">;
  readonly endpoints: Pick<EndpointStore, "find" | "replace">;
  readonly changes: ChangeFeed;
  readonly secrets: SecretOpener;
  readonly sender: Pick<WebhookSender, "send">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
  readonly log: Logger;
  readonly observer: WebhookObserver;
  /** Number of requests in this process; while any runs, it has priority. */
  readonly live: { readonly size: number };
  readonly settings: DispatcherSettings;
}

/**
 * Sends due deliveries: claims as many as fit, attempts them concurrently, and claims again. It starts by itself and
 * survives outages of the store. Several processes may share one store.
 */
export class Dispatcher {
  readonly #deps: DispatcherDeps;
  readonly #breaker: CircuitBreaker;
  readonly #store: StoreRetries;
  readonly #book: EndpointBook;
  readonly #failing: FailingEndpoints;
  readonly #attempts: DeliveryAttempts;
  readonly #wakeSignal: WakeSignal;
  readonly #inFlight = new Map<Claim, Promise<void>>();
  readonly #stopListening: () => void;
  readonly #claiming: Promise<void>;
  #closing: Promise<void> | null = null;

  /** Throws RangeError for settings that contradict each other. */
  constructor(deps: DispatcherDeps) {
    const { queue, clock, log, settings } = deps;
    if (settings.leaseMs < settings.budgetMs + leaseReserveMs) {
      throw new RangeError(`a lease of ${settings.leaseMs} ms is too short for attempts of ${settings.budgetMs} ms`);
    }
    this.#deps = deps;
    const messages = {
      unavailable: "webhooks pause: the store does not answer",
      recovered: "webhooks go on: the store answers again",
    };
    this.#breaker = new CircuitBreaker({ clock, log, messages });
    this.#store = new StoreRetries(clock, this.#breaker);
    this.#book = new EndpointBook(deps);
    this.#failing = new FailingEndpoints({ ...deps, disableAfterMs: settings.disableAfterMs });
    this.#attempts = new DeliveryAttempts({ ...deps, book: this.#book, failing: this.#failing, store: this.#store });
    this.#wakeSignal = new WakeSignal(clock);
    this.#stopListening = queue.onDue(() => this.#wakeSignal.wake());
    this.#claiming = this.#claimRepeatedly();
  }

  /** Number of claimed, unfinished deliveries. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Stops claiming. Attempts in progress finish or are released after 5.4 s. At most 6 s; never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  get #isClosing(): boolean {
    return this.#closing !== null;
  }

  async #claimRepeatedly(): Promise<void> {
    for (let failures = 0; !this.#isClosing; ) {
      const room = this.#deps.settings.inFlightMax - this.inFlight;
      this.#wakeSignal.reset();
      if (room === 0) {
        await this.#wakeSignal.wait(null);
        continue;
      }
      try {
        await this.#sleepUntil(await this.#claim(room));
        failures = 0;
      } catch (cause) {
        failures += 1;
        this.#breaker.failed(cause);
        await pause(this.#deps.clock, waitAfter(failures));
      }
    }
  }

  /**
   * Claims once and starts the attempts. Returns the time (monotonic) of the next claim, unless woken earlier. Rejects
   * when the store does not answer.
   */
  async #claim(max: number): Promise<number> {
    const { queue, clock, settings } = this.#deps;
    // Taken before the claim, so that it lies before the store's end of the lease.
    const leaseEndsAtMs = clock.monotonic() + settings.leaseMs;
    const { claims, nextInMs } = await queue.claim({ max, leaseMs: settings.leaseMs });
    this.#breaker.succeeded();
    const restMs = Math.min(nextInMs ?? idleMs, idleMs);
    const nextAtMs = clock.monotonic() + restMs;
    if (claims.length > 0) await this.#startAll(claims, leaseEndsAtMs);
    else await pause(clock, restMs === 0 ? emptyClaimDelayMs : Math.min(restMs, emptyClaimDelayMs));
    return nextAtMs;
  }

  async #sleepUntil(atMs: number): Promise<void> {
    const ms = atMs - this.#deps.clock.monotonic();
    if (ms > 0) await this.#wakeSignal.wait(ms);
  }

  async #startAll(claims: readonly Claim[], leaseEndsAtMs: number): Promise<void> {
    for (let begun = 0; begun < claims.length; ) {
      if (this.#isClosing) return this.#release(claims.slice(begun), leaseEndsAtMs);
      const end = begun + batchSizes[this.#deps.live.size > 0 ? "serving" : "alone"];
      for (const claim of claims.slice(begun, end)) this.#start(claim, leaseEndsAtMs);
      begun = end;
      await this.#pauseForRequests();
    }
  }

  /** The lateness of a timer shows how long the process was busy, with attempts and everything else. */
  async #pauseForRequests(): Promise<void> {
    const { clock, live } = this.#deps;
    const beganAtMs = clock.monotonic();
    await pause(clock, 0);
    const busyMs = clock.monotonic() - beganAtMs;
    if (busyMs > 0 && live.size > 0) await pause(clock, Math.min(busyMs * pauseFactor, pauseMaxMs));
  }

  #start(claim: Claim, leaseEndsAtMs: number): void {
    const attempt = this.#attempts.make(claim, leaseEndsAtMs).then(() => {
      this.#inFlight.delete(claim);
      // The endpoint has a free slot.
      this.#wakeSignal.wake();
    });
    this.#inFlight.set(claim, attempt);
  }

  async #release(claims: readonly Claim[], untilMs: number): Promise<void> {
    await this.#store.retryUntil(untilMs, () => this.#deps.queue.handBack(claims));
  }

  async #drain(): Promise<void> {
    const { clock, log } = this.#deps;
    this.#stopListening();
    this.#wakeSignal.wake();
    const ended = this.#claiming.then(() => Promise.all(this.#inFlight.values()));
    await Promise.race([ended, pause(clock, drainMs)]);
    this.#store.end();
    const left = [...this.#inFlight.keys()];
    if (left.length > 0) {
      log.warn({ deliveries: left.length }, "released attempts that did not finish within the drain time");
      await Promise.race([this.#release(left, clock.monotonic()), pause(clock, releaseMs)]);
    }
    this.#failing.close();
    this.#book.close();
  }
}

/** A wait with a timeout that `wake` ends early. For one waiter. */
export class WakeSignal {
  readonly #clock: Pick<Clock, "after">;
  #isWoken = false;
  #end: () => void = () => {};

  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /** If nobody waits, the next `wait()` returns at once. */
  wake(): void {
    this.#isWoken = true;
    this.#end();
  }

  /** Forgets earlier wake-ups; call it before looking for work. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Null: until it is woken. */
  async wait(ms: number | null): Promise<void> {
    if (this.#isWoken) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === null ? () => {} : this.#clock.after(ms, resolve);
      this.#end = () => {
        cancel();
        resolve();
      };
    });
  }
}
