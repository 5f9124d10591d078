import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { RoutedDeployment } from "../../../../src/domain/routing/waiting-room.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { requestOf, roomWith } from "./routing-fixture.js";

const holdMs = 200;
const slots = 4;
const stepMs = 5;

interface Outcome {
  readonly atMs: number;
  readonly key: string;
  /** Null: it was rejected. */
  readonly waitMs: number | null;
  readonly retryAfterMs: number | null;
}

/**
 * Simulates clients that send at a fixed rate to a model with 4 slots, each held for 200 ms. `perSecond`: requests per
 * second by name of the key.
 */
async function simulate(seconds: number, perSecond: Readonly<Record<string, number>>) {
  const { room, clock } = roomWith({ slots: [slots], waitingMax: 4 * slots });
  const startMs = clock.now();
  const outcomes: Outcome[] = [];
  let served = 0;
  const send = (key: string): void => {
    const atMs = clock.now() - startMs;
    const request = requestOf<RoutedDeployment>({ owner: { account: key, keyId: key } });
    room.acquire(request, new AbortSource()).then(
      (slot) => {
        outcomes.push({ atMs, key, waitMs: slot.queueMs, retryAfterMs: null });
        clock.after(holdMs, () => {
          served += 1;
          slot.release();
        });
      },
      (error: unknown) => {
        const { retryAfterMs } = error instanceof ServiceError ? error : { retryAfterMs: null };
        outcomes.push({ atMs, key, waitMs: null, retryAfterMs });
      },
    );
  };
  const due = new Map(Object.keys(perSecond).map((key) => [key, 0]));
  for (let ms = 0; ms < seconds * 1_000; ms += stepMs) {
    for (const [key, rate] of Object.entries(perSecond)) {
      let left = (due.get(key) ?? 0) + (rate * stepMs) / 1_000;
      for (; left >= 1; left -= 1) send(key);
      due.set(key, left);
    }
    clock.advance(stepMs);
    for (let turns = 0; turns < 4; turns++) await Promise.resolve();
  }
  return { room, clock, outcomes, served };
}

const capacity = (slots * 1_000) / holdMs;
/** After this time a queue that exists since the start is being shed. */
const settledMs = 3_000;

describe("LoadShedding", () => {
  it("at ten times the capacity every slot stays in use, and accepted requests wait for about half of their slot time (REL-26)", async () => {
    const { outcomes, served } = await simulate(10, { k: 10 * capacity });
    expect(served).toBeGreaterThan(0.95 * 10 * capacity);
    const waits = outcomes.flatMap(({ atMs, waitMs }) => (atMs < settledMs || waitMs === null ? [] : [waitMs]));
    expect(waits.length).toBeGreaterThan(0.95 * (7 - 1) * capacity);
    const meanMs = waits.reduce((sum, waitMs) => sum + waitMs, 0) / waits.length;
    expect(meanMs).toBeLessThanOrEqual(holdMs / 2 + 2 * stepMs);
    // The simulated slots become free at the same time, so some requests wait for the full hold time of a slot.
    expect(Math.max(...waits)).toBeLessThanOrEqual(holdMs + stepMs);
  });

  it("no request of a burst that fills the queue is rejected", async () => {
    const { room, clock } = roomWith({ slots: [slots], waitingMax: 4 * slots });
    const request = requestOf<RoutedDeployment>();
    let granted = 0;
    for (let i = 0; i < 5 * slots; i++) {
      void room.acquire(request, new AbortSource()).then((slot) => {
        granted += 1;
        clock.after(holdMs, () => slot.release());
      });
    }
    for (let ms = 0; ms < 2_000; ms += stepMs) {
      clock.advance(stepMs);
      await Promise.resolve();
    }
    expect([granted, room.busy, room.waiting]).toEqual([5 * slots, 0, 0]);
  });

  it("a key within its share is not rejected while another key's requests are, and its requests wait only for one slot (REL-26)", async () => {
    const { outcomes } = await simulate(10, { greedy: 10 * capacity, light: 2 });
    const light = outcomes.filter(({ key }) => key === "light");
    expect(light.length).toBeGreaterThanOrEqual(18);
    expect(light.filter(({ waitMs }) => waitMs === null)).toEqual([]);
    expect(Math.max(...light.map(({ waitMs }) => waitMs ?? 0))).toBeLessThanOrEqual(holdMs);
  });

  it("nothing is rejected at nine tenths of the capacity", async () => {
    const { outcomes } = await simulate(10, { k: 0.9 * capacity });
    expect(outcomes.filter(({ waitMs }) => waitMs === null)).toEqual([]);
  });

  it("shedding continues when a slow process sees all slots become free at the same time", async () => {
    const { room, clock } = await simulate(5, { k: 10 * capacity });
    const k = { account: "k", keyId: "k" };
    clock.advance(2 * holdMs);
    for (let turns = 0; turns < 8; turns++) await Promise.resolve();
    clock.advance(2 * holdMs);
    expect(room.waiting).toBe(0);
    for (let i = 0; i < 5 * slots; i++) room.acquire(requestOf({ owner: k }), new AbortSource()).catch(() => {});
    expect([room.busy, room.waiting]).toEqual([slots, slots / 2]);
  });

  it("accepts a burst again when no request has waited for a second", async () => {
    const { room, clock } = await simulate(5, { k: 10 * capacity });
    const k = { account: "k", keyId: "k" };
    expect(room.isRejecting(k)).toBe(true);
    for (let ms = 0; ms < 2_000; ms += stepMs) {
      clock.advance(stepMs);
      await Promise.resolve();
    }
    expect([room.busy, room.isRejecting(k)]).toEqual([0, false]);
    for (let i = 0; i < 5 * slots; i++) void room.acquire(requestOf({ owner: k }), new AbortSource());
    expect([room.busy, room.waiting]).toEqual([slots, 4 * slots]);
  });

  it("with each rejection, Retry-After grows by the mean time until a slot becomes free, up to 30 s (REL-26)", async () => {
    const { outcomes } = await simulate(10, { k: 10 * capacity });
    const waits = outcomes.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
    expect(waits[0]).toBeLessThan(5_000);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(1_000);
    expect(Math.max(...waits)).toBeGreaterThan(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000);
    expect(new Set(waits.slice(-8)).size).toBe(8);
  });
});
