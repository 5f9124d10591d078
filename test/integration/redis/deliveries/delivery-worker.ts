import type { State } from "../../../../src/domain/service/state.js";
import type { Claim } from "../../../../src/domain/webhooks/delivery-queue.js";
import { WakeSignal } from "../../../../src/domain/webhooks/dispatcher.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { openRedisState } from "../../../../src/state/redis/state.js";
import { leaseMs, succeeded } from "../../../suites/delivery-records.js";
import { silentLog } from "../../../support/silent-log.js";

/** The state of one process, whose view of the store's time a test can advance. */
export interface Replica {
  readonly state: State;
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** `patience` lengthens the timeouts of calls, for tests in which the server is available. */
export async function openStateReplica(url: string, patience = 20): Promise<Replica> {
  let shiftMs = 0;
  const state = await openRedisState({
    url,
    tls: null,
    log: silentLog,
    clock: createSystemClock(),
    allowVolatile: true,
    timeShiftMs: () => shiftMs,
    patience,
  });
  return {
    state,
    async advance(ms) {
      shiftMs += ms;
      await state.health();
    },
    close: () => state.close(),
  };
}

export const attempted = {
  startedAtMs: 1_000,
  latencyMs: 1,
  status: 200,
  error: null,
  ip: "203.0.113.7",
  response: "ok",
  retryAfter: null,
};

/** Claims and delivers due deliveries until it is stopped, like a dispatcher, also during an outage of the store. */
export class DeliveryWorker {
  /** Ids of deliveries with an accepted result, once per result. */
  readonly delivered: string[] = [];
  /** Number of calls that the store did not accept. */
  failures = 0;
  readonly #state: State;
  readonly #onClaim: (claim: Claim) => void;
  readonly #endListening: () => void;
  readonly #wakeSignal = new WakeSignal(createSystemClock());
  #isEnded = false;
  readonly #loop: Promise<void>;

  constructor(state: State, onClaim: (claim: Claim) => void = () => {}) {
    this.#state = state;
    this.#onClaim = onClaim;
    this.#endListening = state.deliveries.onDue(() => this.#wakeSignal.wake());
    this.#loop = this.#run();
  }

  async end(): Promise<void> {
    this.#isEnded = true;
    this.#endListening();
    this.#wakeSignal.wake();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#isEnded) {
      this.#wakeSignal.reset();
      const waitMs = await this.#workOnce().catch(() => {
        this.failures += 1;
        return 50;
      });
      if (waitMs !== 0 && !this.#isEnded) await this.#wakeSignal.wait(waitMs);
    }
  }

  async #workOnce(): Promise<number | null> {
    const { claims, nextInMs } = await this.#state.deliveries.claim({ max: 64, leaseMs });
    for (const claim of claims) this.#onClaim(claim);
    await Promise.all(claims.map((claim) => this.#deliver(claim)));
    return nextInMs;
  }

  async #deliver(claim: Claim): Promise<void> {
    const health = await this.#state.deliveries.finish({ claim, result: attempted, outcome: succeeded });
    if (health !== null) this.delivered.push(claim.deliveryId);
  }
}
