import { describe, expect, it } from "vitest";
import { EngineError } from "../../../../src/domain/engine/engine.js";
import { KeyRing, ModelKeys } from "../../../../src/engines/openai/connection/key-ring.js";
import { withKeys } from "../../../../src/engines/openai/connection/upstream.js";
import { Secret } from "../../../../src/lib/secret.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** The keys of an upstream, as two of its models use them. */
function ring(...keys: string[]): { clock: FakeClock; keys: ModelKeys; ofOther: ModelKeys } {
  const clock = new FakeClock();
  const shared = new KeyRing(keys.map((key) => new Secret(key)));
  return { clock, keys: new ModelKeys(clock, shared), ofOther: new ModelKeys(clock, shared) };
}

/** The keys that a request with an always failing upstream tries. */
async function triedKeys(keys: ModelKeys, error: EngineError, tenant = "t"): Promise<(string | null)[]> {
  const tried: (string | null)[] = [];
  const attempt = withKeys(keys, tenant, async (key) => {
    tried.push(key.text);
    throw error;
  });
  await expect(attempt).rejects.toBe(error);
  return tried;
}

const unauthorized = new EngineError("unauthorized", "401");
const forbidden = new EngineError("forbidden", "403");
const limited = (retryAfterMs: number) => new EngineError("rate_limited", "429", { retryAfterMs });

describe("KeyRing", () => {
  it("a tenant keeps its key, and tenants are spread over the keys", () => {
    const { keys } = ring("a", "b", "c");
    const used = new Set(Array.from({ length: 50 }, (_, i) => keys.pick(`tenant ${i}`, [])?.text));
    expect(used).toEqual(new Set(["a", "b", "c"]));
    expect(keys.pick("x", [])).toBe(keys.pick("x", []));
  });

  it("after a rejected or limited key a request tries the next key, and each key at most once", async () => {
    const { keys } = ring("a", "b", "c");
    expect((await triedKeys(keys, unauthorized)).toSorted()).toEqual(["a", "b", "c"]);
    const others = ring("a", "b", "c").keys;
    expect((await triedKeys(others, limited(5_000))).toSorted()).toEqual(["a", "b", "c"]);
  });

  it.each([
    ["two waits", [limited(60_000), limited(20_000)]],
    ["a wait and a rejection", [limited(20_000), unauthorized]],
    ["a wait and a forbidden model", [limited(20_000), forbidden]],
  ])("after %s, in any order, the request fails with the error that has the shortest wait", async (_, errors) => {
    for (const order of [errors, errors.toReversed()]) {
      const { keys } = ring("a", "b");
      let at = 0;
      const attempt = withKeys(keys, "t", async () => {
        throw order[at++];
      });
      await expect(attempt).rejects.toMatchObject({ code: "rate_limited", retryAfterMs: 20_000 });
    }
  });

  it("a request is not tried with another key after other errors", async () => {
    const { keys } = ring("a", "b");
    expect(await triedKeys(keys, new EngineError("upstream_error", "500"))).toHaveLength(1);
  });

  it("a rejected key is used again after 10 s, a limited one after its Retry-After", () => {
    const { clock, keys } = ring("a", "b");
    const first = keys.pick("t", []);
    const second = keys.pick("t", first === null ? [] : [first]);
    if (first === null || second === null) throw new Error("two keys are usable");
    keys.rejected(first);
    expect(keys.heldForMs).toBe(0);
    keys.limited(second, 5_000);
    expect(keys.heldForMs).toBe(5_000);
    clock.advance(5_001);
    expect(keys.pick("t", [])).toBe(second);
    expect(keys.heldForMs).toBe(0);
    clock.advance(5_000);
    expect(keys.pick("t", [])).toBe(first);
  });

  it("while all keys are held, the one that becomes usable first is used, so no upstream is blocked", async () => {
    const { keys } = ring("a", "b");
    await triedKeys(keys, unauthorized);
    const held = keys.pick("t", []);
    expect(held).not.toBeNull();
    const single = ring("a").keys;
    expect(await triedKeys(single, unauthorized)).toEqual(["a"]);
    expect(await triedKeys(single, unauthorized)).toEqual(["a"]);
  });

  it("a success ends the hold of its key only if its request began during the hold", async () => {
    const { keys } = ring("a");
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const running = withKeys(keys, "t", () => answered);
    await triedKeys(keys, limited(60_000));
    answer();
    await running;
    expect(keys.heldForMs).toBe(60_000);
    await withKeys(keys, "t", async () => {});
    expect(keys.heldForMs).toBe(0);
  });

  it.each([
    ["a key that may not use one model", forbidden],
    ["a key that is limited for one model", limited(10_000)],
  ])("%s is held for that model only", async (_, error) => {
    const { clock, keys, ofOther } = ring("a", "b");
    expect(await triedKeys(keys, error)).toHaveLength(2);
    expect([keys.heldForMs, ofOther.heldForMs]).toEqual([10_000, 0]);
    clock.advance(4_000);
    expect([keys.heldForMs, ofOther.heldForMs]).toEqual([6_000, 0]);
    await triedKeys(ofOther, unauthorized);
    expect([keys.heldForMs, ofOther.heldForMs]).toEqual([10_000, 10_000]);
    clock.advance(10_000);
    expect([keys.heldForMs, ofOther.heldForMs]).toEqual([0, 0]);
  });

  it("requests for a model use an allowed key until the hold of the forbidden key ends", async () => {
    const { clock, keys } = ring("a", "b");
    const first = keys.pick("t", [])?.text;
    const use = async (): Promise<(string | null)[]> => {
      const tried: (string | null)[] = [];
      await withKeys(keys, "t", async (key) => {
        tried.push(key.text);
        if (key.text === first) throw forbidden;
      });
      return tried;
    };
    expect(await use()).toHaveLength(2);
    expect(await use()).toHaveLength(1);
    clock.advance(10_000);
    expect(await use()).toHaveLength(2);
  });

  it("requests to an upstream without keys have no key", async () => {
    expect(await triedKeys(ring().keys, unauthorized)).toEqual([null]);
  });
});
