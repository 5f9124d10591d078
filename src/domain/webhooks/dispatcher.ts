import type { ChangeFeed } from "../call/change-feed.js";
import type { Clock, Logger } from "../call/ports.js";
import { StoreGate } from "../call/store-gate.js";
import { DeliveryAttempts } from "./delivery-attempts.js";
import type { Claim, DeliveryQueue } from "./delivery-queue.js";
import { EndpointBook, type SecretOpener } from "./endpoint-book.js";
import type { EndpointStore } from "./endpoint-store.js";
import { FailingEndpoints } from "./failing-endpoints.js";
import { Nap, pause } from "./nap.js";
import { StorePatience, waitAfter } from "./store-patience.js";
import type { WebhookObserver, WebhookSender } from "./webhook-sender.js";

/** Without news of something due it is asked for at least so often: other processes make some, too. */
const idleMs = 1_000;
/** After a claim that took nothing the next one waits so long, however often this process is told that something is due. */
const emptyHandedMs = 5;
/** Attempts that begin at once, beside requests and without any. */
const groupSizes = { serving: 4, alone: 16 } as const;
/**
 * Beside requests, so many times as long as a group took belongs to whatever else the process does: requests are not
 * slowed by however many deliveries that are due (WH-52).
 */
const breathFactor = 2;
const breathMaxMs = 20;
/** How long a close waits for the attempts that are under way; then they are given back. With that it takes 6 s at most. */
const drainMs = 5_400;
const handBackMs = 400;
/** What a lease must leave beside the attempt, to note its end even when the store is slow (WH-34). */
const leaseSpareMs = 5_000;

export interface DispatcherSettings {
  /** For one attempt, from the name to the answer's headers. */
  readonly budgetMs: number;
  /** Waits after the failures of a delivery, one for each retry. */
  readonly retryDelaysMs: readonly number[];
  /** How long a claimed delivery is this process's: the budget and 5 s at least. */
  readonly leaseMs: number;
  /** Attempts under way at once, 1 to 64. */
  readonly inFlightMax: number;
  /** An endpoint without a success for so long is disabled (WH-38); 0: never. */
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
  /** Whether this process has requests now: they come first. */
  readonly isServing: () => boolean;
  readonly settings: DispatcherSettings;
}

/**
 * Sends what is due: claims as many deliveries as it has room for, attempts them side by side, claims again. It begins by
 * itself and outlives any outage of the store. Several processes may do so over one store.
 */
export class Dispatcher {
  readonly #deps: DispatcherDeps;
  readonly #gate: StoreGate;
  readonly #store: StorePatience;
  readonly #book: EndpointBook;
  readonly #failing: FailingEndpoints;
  readonly #attempts: DeliveryAttempts;
  readonly #nap: Nap;
  readonly #inFlight = new Map<Claim, Promise<void>>();
  readonly #stopListening: () => void;
  readonly #claiming: Promise<void>;
  #closing: Promise<void> | null = null;

  /** Throws RangeError when the settings do not go together. */
  constructor(deps: DispatcherDeps) {
    const { queue, clock, log, settings } = deps;
    if (settings.leaseMs < settings.budgetMs + leaseSpareMs) {
      throw new RangeError(`a lease of ${settings.leaseMs} ms is too short for attempts of ${settings.budgetMs} ms`);
    }
    this.#deps = deps;
    const says = { away: "webhooks pause: the store does not answer", back: "webhooks go on: the store answers again" };
    this.#gate = new StoreGate({ clock, log, says });
    this.#store = new StorePatience(clock, this.#gate);
    this.#book = new EndpointBook(deps);
    this.#failing = new FailingEndpoints({ ...deps, disableAfterMs: settings.disableAfterMs });
    this.#attempts = new DeliveryAttempts({ ...deps, book: this.#book, failing: this.#failing, store: this.#store });
    this.#nap = new Nap(clock);
    this.#stopListening = queue.onDue(() => this.#nap.wake());
    this.#claiming = this.#claimOnAndOn();
  }

  /** Deliveries that are claimed and not yet ended. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Claims nothing any more; what is under way ends, or is given back after 5.4 s. Takes 6 s at most, never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  get #isClosing(): boolean {
    return this.#closing !== null;
  }

  async #claimOnAndOn(): Promise<void> {
    for (let failures = 0; !this.#isClosing; ) {
      const room = this.#deps.settings.inFlightMax - this.inFlight;
      this.#nap.forget();
      if (room === 0) {
        await this.#nap.wait(null);
        continue;
      }
      try {
        await this.#napUntil(await this.#claim(room));
        failures = 0;
      } catch (cause) {
        failures += 1;
        this.#gate.failed(cause);
        await pause(this.#deps.clock, waitAfter(failures));
      }
    }
  }

  /**
   * Claims once and begins what it got. Until when (monotonic) there is nothing more to claim, unless it is woken. Rejects
   * when the store does not answer.
   */
  async #claim(max: number): Promise<number> {
    const { queue, clock, settings } = this.#deps;
    // The store's lease begins later than this, so that this end of it is the earlier one.
    const leaseEndsAtMs = clock.monotonic() + settings.leaseMs;
    const { claims, nextInMs } = await queue.claim({ max, leaseMs: settings.leaseMs });
    this.#gate.answered();
    const restMs = Math.min(nextInMs ?? idleMs, idleMs);
    const nextAtMs = clock.monotonic() + restMs;
    if (claims.length > 0) await this.#beginAll(claims, leaseEndsAtMs);
    else await pause(clock, restMs === 0 ? emptyHandedMs : Math.min(restMs, emptyHandedMs));
    return nextAtMs;
  }

  async #napUntil(atMs: number): Promise<void> {
    const ms = atMs - this.#deps.clock.monotonic();
    if (ms > 0) await this.#nap.wait(ms);
  }

  async #beginAll(claims: readonly Claim[], leaseEndsAtMs: number): Promise<void> {
    for (let begun = 0; begun < claims.length; ) {
      if (this.#isClosing) return this.#handBack(claims.slice(begun), leaseEndsAtMs);
      const end = begun + groupSizes[this.#deps.isServing() ? "serving" : "alone"];
      for (const claim of claims.slice(begun, end)) this.#begin(claim, leaseEndsAtMs);
      begun = end;
      await this.#breathe();
    }
  }

  /** How late a timer comes tells how long the process was busy, with these attempts and with all that is going on. */
  async #breathe(): Promise<void> {
    const { clock, isServing } = this.#deps;
    const beganAtMs = clock.monotonic();
    await pause(clock, 0);
    const busyMs = clock.monotonic() - beganAtMs;
    if (busyMs > 0 && isServing()) await pause(clock, Math.min(busyMs * breathFactor, breathMaxMs));
  }

  #begin(claim: Claim, leaseEndsAtMs: number): void {
    const attempt = this.#attempts.make(claim, leaseEndsAtMs).then(() => {
      this.#inFlight.delete(claim);
      // Its endpoint has room again.
      this.#nap.wake();
    });
    this.#inFlight.set(claim, attempt);
  }

  async #handBack(claims: readonly Claim[], untilMs: number): Promise<void> {
    await this.#store.ask(untilMs, () => this.#deps.queue.handBack(claims));
  }

  async #drain(): Promise<void> {
    const { clock, log } = this.#deps;
    this.#stopListening();
    this.#nap.wake();
    const ended = this.#claiming.then(() => Promise.all(this.#inFlight.values()));
    await Promise.race([ended, pause(clock, drainMs)]);
    this.#store.end();
    const left = [...this.#inFlight.keys()];
    if (left.length > 0) {
      log.warn({ deliveries: left.length }, "attempts that did not end in time are given back");
      await Promise.race([this.#handBack(left, clock.monotonic()), pause(clock, handBackMs)]);
    }
    this.#failing.close();
    this.#book.close();
  }
}
