import { describe, expect, it } from "vitest";
import { EngineError } from "../../../../src/domain/engine/engine.js";
import { KeyRing } from "../../../../src/engines/openai/connection/key-ring.js";
import { withKeys } from "../../../../src/engines/openai/connection/upstream.js";
import { Secret } from "../../../../src/lib/secret.js";
import { FakeClock } from "../../../support/fake-clock.js";

function ring(...keys: string[]): { clock: FakeClock; keys: KeyRing } {
  const clock = new FakeClock();
  return {
    clock,
    keys: new KeyRing(
      clock,
      keys.map((key) => new Secret(key)),
    ),
  };
}

/** The keys that a request with an always failing upstream tries. */
async function triedKeys(keys: KeyRing, error: EngineError, tenant = "t"): Promise<(string | null)[]> {
  const tried: (string | null)[] = [];
  const attempt = withKeys(keys, tenant, async (key) => {
    tried.push(key.text);
    throw error;
  });
  await expect(attempt).rejects.toBe(error);
  return tried;
}

const unauthorized = new EngineError("unauthorized", "401");
const limited = (retryAfterMs: number) => new EngineError("rate_limited", "429", { retryAfterMs });

describe("KeyRing", () => {
  it("a tenant keeps its key, and tenants are spread over the keys", () => {
    const { keys } = ring("a", "b", "c");
    const used = new Set(Array.from({ length: 50 }, (_, i) => keys.pick(`tenant ${i}`, [])?.text));
    expect(used).toEqual(new Set(["a", "b", "c"]));
    expect(keys.pick("x", [])).toBe(keys.pick("x", []));
  });

  it("a rejected or limited key makes the same request try the next one, each at most once", async () => {
    const { keys } = ring("a", "b", "c");
    expect((await triedKeys(keys, unauthorized)).toSorted()).toEqual(["a", "b", "c"]);
    const others = ring("a", "b", "c").keys;
    expect((await triedKeys(others, limited(5_000))).toSorted()).toEqual(["a", "b", "c"]);
  });

  it("other errors are not tried with another key", async () => {
    const { keys } = ring("a", "b");
    expect(await triedKeys(keys, new EngineError("upstream_error", "500"))).toHaveLength(1);
  });

  it("a rejected key is used again after a minute, a limited one after its Retry-After", () => {
    const { clock, keys } = ring("a", "b");
    const first = keys.pick("t", []);
    const second = keys.pick("t", first === null ? [] : [first]);
    if (first === null || second === null) throw new Error("two keys are usable");
    keys.rejected(first);
    expect(keys.heldForMs).toBe(0);
    keys.limited(second, 5_000);
    expect(keys.heldForMs).toBe(5_000);
    keys.accepted(second);
    expect(keys.heldForMs).toBe(0);
    keys.limited(second, 5_000);
    clock.advance(5_001);
    expect(keys.pick("t", [])).toBe(second);
    expect(keys.heldForMs).toBe(0);
    clock.advance(55_000);
    expect(keys.pick("t", [])).toBe(first);
  });

  it("the key that becomes usable first is used while all are held: no upstream is blocked by its own cooldown", async () => {
    const { keys } = ring("a", "b");
    await triedKeys(keys, unauthorized);
    const held = keys.pick("t", []);
    expect(held).not.toBeNull();
    const single = ring("a").keys;
    expect(await triedKeys(single, unauthorized)).toEqual(["a"]);
    expect(await triedKeys(single, unauthorized)).toEqual(["a"]);
  });

  it("an upstream without keys receives requests without one", async () => {
    expect(await triedKeys(ring().keys, unauthorized)).toEqual([null]);
  });
});
