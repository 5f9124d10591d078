import { CircuitBreaker } from "../call/circuit-breaker.js";
import { type ChangeFeed, type Clock, type Logger, pause } from "../call/ports.js";
import type { SendResult, WebhookObserver, WebhookSender } from "./delivery.js";
import { DeliveryAttempts, StoreRetries, waitAfter } from "./delivery-attempts.js";
import { type Claim, type DeliveryQueue, fanOutMax } from "./delivery-queue.js";
import { DeliveryPace, DeliverySlots, type SlotSettings } from "./delivery-slots.js";
import { EndpointBook, FailingEndpoints, type SecretOpener } from "./endpoint-book.js";
import type { EndpointStore } from "./endpoint-store.js";

/** Poll interval without a wake-up: other processes also create deliveries. */
const idleMs = 1_000;
/** Minimum delay after an empty claim. */
const emptyClaimDelayMs = 5;
/** Interval of creating deliveries while all slots are in use. */
const fanOutEveryMs = 250;
/**
 * Results that wait for the store. Beyond this number no delivery is claimed: if the process is killed, the deliveries of
 * these results are sent again.
 */
const unrecordedMax = 192;
/** Time for which `close` waits for attempts in progress, and then the time to release their claims; together at most 6 s. */
const drainMs = 5_400;
const releaseMs = 400;
/** Part of the lease beyond the attempt, to record the result on a slow store (WH-34). */
const leaseReserveMs = 5_000;

export interface DispatcherSettings extends SlotSettings {
  /** Time budget of an attempt, from the name look-up to the response headers. */
  readonly budgetMs: number;
  /** Delay before each retry. */
  readonly retryDelaysMs: readonly number[];
  /** Lease of a claim: at least the budget plus 5 s. */
  readonly leaseMs: number;
  /** Time without a success after which an endpoint is disabled (WH-38); 0: never. */
  readonly disableAfterMs: number;
}

export interface DispatcherDeps {
  readonly queue: Pick<DeliveryQueue, "claim" | "fanOut" | "finish" | "handBack" | "onDue">;
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
 * Sends due deliveries: claims as many as there are free slots, attempts them concurrently, and claims again. It starts by
 * itself and survives outages of the store. Several processes may share one store.
 */
export class Dispatcher {
  readonly #deps: DispatcherDeps;
  readonly #breaker: CircuitBreaker;
  readonly #store: StoreRetries;
  readonly #book: EndpointBook;
  readonly #failing: FailingEndpoints;
  readonly #attempts: DeliveryAttempts;
  readonly #wakeSignal: WakeSignal;
  /** Woken when a slot is free for which deliveries may wait. */
  readonly #slotFreed: WakeSignal;
  readonly #slots: DeliverySlots;
  readonly #pace: DeliveryPace;
  readonly #inFlight = new Map<Claim, Promise<void>>();
  /** Number of ended attempts whose results the store has not recorded yet. */
  #unrecorded = 0;
  /** Claims that wait for the end of another attempt to their endpoint, each with the end of its lease. */
  readonly #ahead = new Map<string, { readonly claim: Claim; readonly leaseEndsAtMs: number }[]>();
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
      recovered: "webhooks continue: the store answers again",
    };
    this.#breaker = new CircuitBreaker({ clock, log, messages });
    this.#store = new StoreRetries(clock, this.#breaker);
    this.#book = new EndpointBook(deps);
    this.#failing = new FailingEndpoints({ ...deps, disableAfterMs: settings.disableAfterMs });
    this.#attempts = new DeliveryAttempts({ ...deps, book: this.#book, failing: this.#failing, store: this.#store });
    this.#slots = new DeliverySlots(settings);
    this.#pace = new DeliveryPace(deps);
    this.#wakeSignal = new WakeSignal(clock);
    this.#slotFreed = new WakeSignal(clock);
    this.#stopListening = queue.onDue(() => this.#wakeSignal.wake());
    this.#claiming = this.#claimRepeatedly();
  }

  /** Number of attempts that are not recorded yet. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /**
   * Stops claiming. Attempts in progress may finish within 5.4 s; the claims of the others are released. Takes at most 6 s
   * and never rejects.
   */
  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  /** Number of deliveries that may be claimed now. */
  get #room(): number {
    return Math.min(this.#slots.room, Math.max(0, unrecordedMax - this.#unrecorded));
  }

  get #isClosing(): boolean {
    return this.#closing !== null;
  }

  async #claimRepeatedly(): Promise<void> {
    for (let failures = 0; !this.#isClosing; ) {
      this.#wakeSignal.reset();
      try {
        if (this.#room === 0) await this.#waitForRoom();
        else await this.#sleepUntil(await this.#claim());
        failures = 0;
      } catch (cause) {
        failures += 1;
        this.#breaker.failed(cause);
        await pause(this.#deps.clock, waitAfter(failures));
      }
    }
  }

  /**
   * Waits for room, and creates the deliveries of new events while there is none. Rejects when the store does not answer.
   */
  async #waitForRoom(): Promise<void> {
    await this.#wakeSignal.wait(fanOutEveryMs);
    if (this.#room > 0) return;
    await this.#deps.queue.fanOut(fanOutMax);
    this.#breaker.succeeded();
  }

  /**
   * Claims once and starts the attempts. Returns the time (monotonic) of the next claim, unless woken earlier. Rejects
   * when the store does not answer.
   */
  async #claim(): Promise<number> {
    const { queue, clock, settings } = this.#deps;
    const max = Math.min(this.#room, this.#pace.claimedMax);
    // Computed before the claim, so that it is earlier than the end of the lease in the store.
    const leaseEndsAtMs = clock.monotonic() + settings.leaseMs;
    this.#slotFreed.reset();
    const { claims, nextInMs } = await queue.claim({ max, leaseMs: settings.leaseMs, shares: this.#slots.shares() });
    this.#breaker.succeeded();
    const restMs = Math.min(nextInMs ?? idleMs, idleMs);
    const nextAtMs = clock.monotonic() + restMs;
    for (const claim of claims) this.#slots.take(claim);
    if (claims.length > 0) await this.#startAll(claims, leaseEndsAtMs);
    else {
      await this.#slotFreed.wait(restMs === 0 ? emptyClaimDelayMs : Math.min(restMs, emptyClaimDelayMs));
      // Creating the deliveries of many events must not delay requests, so it pauses, too.
      if (restMs === 0) await this.#pace.giveWay();
    }
    return nextAtMs;
  }

  async #sleepUntil(atMs: number): Promise<void> {
    const ms = atMs - this.#deps.clock.monotonic();
    if (ms > 0) await this.#wakeSignal.wait(ms);
  }

  async #startAll(claims: readonly Claim[], leaseEndsAtMs: number): Promise<void> {
    for (let begun = 0; begun < claims.length; ) {
      if (this.#isClosing) return this.#handBack(claims.slice(begun), leaseEndsAtMs);
      const { size, pauseMaxMs } = this.#pace.nextBatch(claims.slice(begun));
      for (const claim of claims.slice(begun, begun + size)) this.#startInOrder(claim, leaseEndsAtMs);
      begun += size;
      if (pauseMaxMs !== null) await this.#pace.pause(pauseMaxMs);
    }
  }

  /** Starts the attempt, or lets it wait for the end of another attempt to its endpoint. */
  #startInOrder(claim: Claim, leaseEndsAtMs: number): void {
    const waiting = this.#ahead.get(claim.endpointId);
    if (waiting !== undefined) waiting.push({ claim, leaseEndsAtMs });
    else if (this.#slots.mayStart(claim)) this.#start(claim, leaseEndsAtMs);
    else this.#ahead.set(claim.endpointId, [{ claim, leaseEndsAtMs }]);
  }

  #start(claim: Claim, leaseEndsAtMs: number): void {
    const { clock } = this.#deps;
    let endedAtMs: number | null = null;
    const end = (result: SendResult | null): void => {
      if (endedAtMs !== null) return;
      endedAtMs = clock.monotonic();
      const isAwaited = this.#slots.isAwaited(claim);
      // The slot is free for the next delivery while the store records this result.
      this.#slots.ended(claim, result);
      if (isAwaited) {
        this.#slotFreed.wake();
        this.#wakeSignal.wake();
      }
      this.#unrecorded += 1;
      this.#startNext(claim.endpointId);
    };
    this.#slots.started(claim);
    const attempt = this.#attempts.make(claim, leaseEndsAtMs, end).then(() => {
      if (endedAtMs !== null) this.#slots.recorded(clock.monotonic() - endedAtMs);
      end(null);
      this.#inFlight.delete(claim);
      this.#unrecorded -= 1;
      // The endpoint may have one more delivery in flight.
      this.#wakeSignal.wake();
    });
    this.#inFlight.set(claim, attempt);
  }

  /**
   * Starts the next attempt that waits for its endpoint. If the endpoint has become slow, its waiting claims are released
   * instead.
   */
  #startNext(endpointId: string): void {
    const waiting = this.#ahead.get(endpointId);
    const next = waiting?.shift();
    if (waiting === undefined || next === undefined) return;
    if (waiting.length === 0) this.#ahead.delete(endpointId);
    if (this.#slots.isSlow(endpointId)) {
      this.#ahead.delete(endpointId);
      void this.#handBack([next.claim, ...waiting.map(({ claim }) => claim)], next.leaseEndsAtMs);
    } else this.#start(next.claim, next.leaseEndsAtMs);
  }

  async #handBack(claims: readonly Claim[], untilMs: number): Promise<void> {
    await this.#release(claims, untilMs);
    for (const claim of claims) this.#slots.release(claim);
    this.#wakeSignal.wake();
  }

  async #release(claims: readonly Claim[], untilMs: number): Promise<void> {
    await this.#store.retryUntil(untilMs, () => this.#deps.queue.handBack(claims));
  }

  async #drain(): Promise<void> {
    const { clock, log } = this.#deps;
    this.#stopListening();
    this.#wakeSignal.wake();
    const waiting = [...this.#ahead.values()].flatMap((each) => each.map(({ claim }) => claim));
    this.#ahead.clear();
    const released = waiting.length === 0 ? null : this.#release(waiting, clock.monotonic() + releaseMs);
    const ended = Promise.all([this.#claiming, released]).then(() => Promise.all(this.#inFlight.values()));
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

  /** If nobody waits, the next `wait()` returns immediately. */
  wake(): void {
    this.#isWoken = true;
    this.#end();
  }

  /** Discards earlier wake-ups; call it before looking for work. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Waits until `wake` is called or `ms` have passed; null: without a timeout. */
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
