import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AttemptOutcome, Claim } from "../../src/domain/webhooks/delivery-queue.js";
import { endpoint } from "../support/records.js";
import { rounds } from "../support/tier.js";
import { DeliveryModel, isEnded } from "./delivery-model.js";
import { DeliveryDesk, failedForGood, retryIn, succeeded } from "./delivery-records.js";
import type { OpenState, StateHarness } from "./state-harness.js";

/** Time between two steps: longer than a lease, so that delays end between two steps and real time does not matter. */
const strideMs = 20_000;
const maxInFlight = 3;

/** A step of a random sequence. The numbers select among the objects that exist when it runs. */
type Step =
  | { readonly act: "emit"; readonly endpoint: "we_a" | "we_b" }
  | { readonly act: "claim"; readonly max: number }
  | { readonly act: "finish"; readonly which: number; readonly outcome: AttemptOutcome }
  | { readonly act: "handBack"; readonly which: number }
  | { readonly act: "retry"; readonly which: number; readonly restart: boolean; readonly again: boolean }
  | { readonly act: "wait" };

const which = fc.nat(1_000);
const outcome = fc.constantFrom(succeeded, failedForGood, retryIn(30_000), retryIn(50_000));
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("emit"), endpoint: fc.constantFrom("we_a", "we_b") }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant("claim"), max: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 5, arbitrary: fc.record({ act: fc.constant("finish"), which, outcome }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("handBack"), which }) },
  {
    weight: 2,
    arbitrary: fc.record({ act: fc.constant("retry"), which, restart: fc.boolean(), again: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("wait") }) },
);

/** Compares random sequences of operations with a simple model of the rules. */
export function describeDeliveryModel(open: OpenState): void {
  describe("model", () => {
    it("the queue keeps its invariants under any sequence of operations (WH-25, WH-29, WH-32, WH-33, WH-37, WH-46, WH-47)", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60, size: "max" }), async (steps) => {
          const harness = await open();
          try {
            const life = new QueueLife(harness);
            await life.begin();
            for (const each of steps) await life.run(each);
            await life.end();
          } finally {
            await harness.close();
          }
        }),
        { numRuns: rounds(100) },
      );
    }, 120_000);
  });
}

/** Applies each step to the queue and to the model, and compares the results. */
class QueueLife {
  readonly #harness: StateHarness;
  readonly #desk: DeliveryDesk;
  readonly #model = new DeliveryModel(maxInFlight);
  /** All claims that were returned, including expired ones. */
  #claims: Claim[] = [];

  constructor(harness: StateHarness) {
    this.#harness = harness;
    this.#desk = new DeliveryDesk(harness);
  }

  async begin(): Promise<void> {
    await this.#desk.insert(endpoint("we_a", { maxInFlight }));
    await this.#desk.insert(endpoint("we_b", { account: "b", maxInFlight }));
  }

  async run(step: Step): Promise<void> {
    switch (step.act) {
      case "emit":
        this.#model.add(
          await this.#desk.emit(step.endpoint, { account: step.endpoint === "we_a" ? "a" : "b" }),
          step.endpoint,
        );
        return;
      case "claim":
        await this.#claim(step.max);
        return;
      case "finish":
        await this.#finish(step.which, step.outcome);
        return;
      case "handBack":
        await this.#handBack(step.which);
        return;
      case "retry":
        await this.#retry(step.which, step);
        return;
      case "wait":
        await this.#harness.advance(strideMs);
        this.#model.advance(strideMs);
    }
  }

  /** Lets all open deliveries become due, delivers them and compares the queue with the model. */
  async end(): Promise<void> {
    for (let round = 0; this.#model.deliveries.some((each) => !isEnded(each)); round++) {
      if (round > 200) throw new Error("something open is never claimed");
      await this.run({ act: "wait" });
      await this.#claim(64);
      for (const claim of this.#claims.splice(0)) {
        const counts = this.#model.finish(claim, succeeded);
        expect((await this.#desk.finish(claim, succeeded)) !== null).toBe(counts);
      }
    }
    for (const { id, state, attemptsMade } of this.#model.deliveries) {
      expect(await this.#desk.find(id)).toMatchObject({ state, attemptsMade });
    }
    expect(await this.#desk.queue.due()).toBe(0);
    expect(await this.#desk.queue.backlog()).toEqual([]);
    expect(await this.#desk.claim()).toEqual([]);
  }

  async #claim(max: number): Promise<void> {
    const expected = Math.min(max, this.#model.claimable());
    const claims = await this.#desk.claim(max);
    expect(claims).toHaveLength(expected);
    expect(this.#model.claimed(claims)).toBeNull();
    this.#claims.push(...claims);
  }

  async #finish(which: number, outcome: AttemptOutcome): Promise<void> {
    const claim = this.#claims[which % this.#claims.length];
    if (claim === undefined) return;
    const counts = this.#model.finish(claim, outcome);
    expect((await this.#desk.finish(claim, outcome)) !== null).toBe(counts);
  }

  async #handBack(which: number): Promise<void> {
    const claim = this.#claims[which % this.#claims.length];
    if (claim === undefined) return;
    this.#model.handBack(claim);
    await this.#desk.queue.handBack([claim]);
  }

  async #retry(which: number, how: { readonly restart: boolean; readonly again: boolean }): Promise<void> {
    const { deliveries } = this.#model;
    const delivery = deliveries[which % deliveries.length];
    if (delivery === undefined || this.#model.isLost(delivery)) return;
    const account = delivery.endpointId === "we_a" ? "a" : "b";
    const request = { account, deliveryId: delivery.id, by: "admin_token", ...how };
    expect(await this.#desk.queue.retryNow(request)).toBe(this.#model.retry(delivery, how));
  }
}
