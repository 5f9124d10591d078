import { describe, expect, it } from "vitest";
import { KeyCache } from "../../../../src/domain/access/key-cache.js";
import type { ApiKeyRecord } from "../../../../src/domain/access/key-store.js";
import { keyRecord } from "../../../suites/api-key-records.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { HandFeed } from "../../../support/hand-feed.js";
import { ScriptedKeyStore } from "./scripted-key-store.js";

const { id, hash } = keyRecord(1);
const unknownHash = keyRecord(2).hash;

async function createCache() {
  const clock = new FakeClock();
  const keys = new ScriptedKeyStore();
  await keys.insert(keyRecord(1));
  const changes = new HandFeed();
  return { clock, keys, changes, cache: new KeyCache({ keys, clock, changes }) };
}

function createGate() {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { gate, open };
}

describe("KeyCache", () => {
  it("reads a cached key again from the store after 30 s, even if messages about changes are lost (KEY-10)", async () => {
    const { cache, clock, keys } = await createCache();
    for (const [afterMs, lookUps] of [
      [0, 1],
      [29_999, 1],
      [1, 2],
    ] as const) {
      clock.advance(afterMs);
      expect(await cache.find(hash)).toMatchObject({ id });
      expect(keys.lookUps).toHaveLength(lookUps);
    }
  });

  it("reads an unknown key from the store every 5 s, so that a new key works soon", async () => {
    const { cache, clock, keys } = await createCache();
    expect(await cache.find(unknownHash)).toBeNull();
    await keys.insert(keyRecord(2));
    clock.advance(4_999);
    expect(await cache.find(unknownHash)).toBeNull();
    expect(keys.lookUps).toHaveLength(1);
    clock.advance(1);
    expect(await cache.find(unknownHash)).toMatchObject({ id: keyRecord(2).id });
  });

  it("reads once for many simultaneous requests", async () => {
    const { cache, keys } = await createCache();
    await Promise.all(Array.from({ length: 50 }, () => cache.find(hash)));
    expect(keys.lookUps).toHaveLength(1);
  });

  it("returns frozen records", async () => {
    const { cache } = await createCache();
    const record = await cache.find(hash);
    expect(Object.isFrozen(record)).toBe(true);
    expect(Object.isFrozen(record?.models)).toBe(true);
    expect(Object.isFrozen(record?.limits)).toBe(true);
  });

  it("does not cache a look-up that began before an invalidation (KEY-12)", async () => {
    const { cache, keys } = await createCache();
    const { gate, open } = createGate();
    keys.gate = gate;
    const early = cache.find(hash);
    await keys.revoke(id, 1_000);
    cache.forget(id);
    keys.gate = null;
    // A request after the revocation does not share the look-up that began before it.
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: 1_000 });
    open();
    await early;
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: 1_000 });
  });

  it("invalidates one key and keeps the others", async () => {
    const { cache, keys } = await createCache();
    await keys.insert(keyRecord(2));
    await cache.find(hash);
    await cache.find(unknownHash);
    cache.forget(id);
    keys.lookUps.length = 0;
    await cache.find(hash);
    await cache.find(unknownHash);
    expect(keys.lookUps).toEqual([hash]);
  });

  it("an unknown key is read again as soon as any key changed", async () => {
    const { cache, keys } = await createCache();
    expect(await cache.find(unknownHash)).toBeNull();
    await keys.insert(keyRecord(2));
    cache.forget(keyRecord(2).id);
    expect(await cache.find(unknownHash)).toMatchObject({ id: keyRecord(2).id });
  });

  it("after a lost connection every cached key is read once before it is accepted again (KEY-11)", async () => {
    const { cache, keys } = await createCache();
    await keys.insert(keyRecord(2));
    for (const each of [hash, unknownHash]) await cache.find(each);
    await keys.revoke(id, 1_000);
    cache.doubtAll();
    keys.lookUps.length = 0;
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: 1_000 });
    await cache.find(unknownHash);
    await cache.find(hash);
    expect(keys.lookUps).toEqual([hash, unknownHash]);
  });

  it("caches nothing while the change feed is not connected, and reads keys of that time again afterwards (KEY-11)", async () => {
    const { cache, changes, clock, keys } = await createCache();
    await cache.find(hash);
    changes.isLinked = false;
    keys.lookUps.length = 0;
    for (let reads = 1; reads <= 3; reads++) {
      await cache.find(hash);
      await cache.find(unknownHash);
      expect(keys.lookUps).toHaveLength(2 * reads);
      expect(cache.fresh(hash, clock.monotonic())).toBeUndefined();
    }
    changes.isLinked = true;
    expect(cache.fresh(hash, clock.monotonic())).toBeUndefined();
    await cache.find(hash);
    expect(cache.fresh(hash, clock.monotonic())).toMatchObject({ id });
  });

  it("the result of a look-up that began before the connection was lost is not used afterwards (KEY-11, KEY-12)", async () => {
    const { cache, clock, keys } = await createCache();
    const { gate, open } = createGate();
    keys.gate = gate;
    const early = cache.find(hash);
    await keys.revoke(id, 1_000);
    cache.doubtAll();
    keys.gate = null;
    open();
    await early;
    expect(cache.fresh(hash, clock.monotonic())).toBeUndefined();
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: 1_000 });
  });

  it("cached keys work during an outage, whether or not the connection was lost with the store (KEY-14)", async () => {
    const { cache, changes, keys } = await createCache();
    await cache.find(hash);
    keys.down = true;
    changes.isLinked = false;
    cache.doubtAll();
    expect(await cache.find(hash)).toMatchObject({ id });
    await expect(cache.find(unknownHash)).rejects.toMatchObject({
      code: "storage_unavailable",
      retryAfterMs: 1_000,
      shouldRetry: true,
    });
  });

  it("during an outage known keys work for 5 min and unknown ones get the outage error (KEY-14)", async () => {
    const { cache, clock, keys } = await createCache();
    await cache.find(hash);
    keys.down = true;
    clock.advance(299_999);
    expect(await cache.find(hash)).toMatchObject({ id });
    await expect(cache.find(unknownHash)).rejects.toMatchObject({ code: "storage_unavailable" });
    clock.advance(1);
    await expect(cache.find(hash)).rejects.toMatchObject({ code: "storage_unavailable" });
    keys.down = false;
    expect(await cache.find(hash)).toMatchObject({ id });
  });

  it("during an outage a request with a cached key waits for a failing look-up at most once a second (KEY-14)", async () => {
    const { cache, changes, clock, keys } = await createCache();
    await cache.find(hash);
    changes.isLinked = false;
    keys.down = true;
    await cache.find(hash);
    keys.down = false;
    const { gate, open } = createGate();
    keys.gate = gate;
    await keys.revoke(id, 1_000);
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: null });
    clock.advance(1_000);
    const waiting = cache.find(hash);
    open();
    expect(await waiting).toMatchObject({ revokedAtMs: 1_000 });
    keys.gate = null;
    expect(await cache.find(hash)).toMatchObject({ revokedAtMs: 1_000 });
  });

  it("a key that was unknown before the outage is not reported as invalid during it (KEY-14)", async () => {
    const { cache, clock, keys } = await createCache();
    expect(await cache.find(unknownHash)).toBeNull();
    keys.down = true;
    clock.advance(5_000);
    await expect(cache.find(unknownHash)).rejects.toMatchObject({ code: "storage_unavailable" });
  });

  it("a flood of invented keys evicts no known key, and at most 1,000 of them are cached", async () => {
    const { cache, keys } = await createCache();
    await cache.find(hash);
    for (let number = 0; number < 3_000; number++) await cache.find(`made-up ${number}`);
    keys.lookUps.length = 0;
    await cache.find(hash);
    expect(keys.lookUps).toEqual([]);
    expect(cache.size).toBeLessThanOrEqual(1_001);
  });

  it("reads each of 100,000 keys in use only once if no change can be missed (E-32)", async () => {
    const changes = new HandFeed();
    changes.isComplete = true;
    const clock = new FakeClock();
    const record = keyRecord(1);
    let lookUps = 0;
    const findByHash = async (found: string): Promise<ApiKeyRecord> => {
      lookUps += 1;
      return { ...record, id: `key_${found}`, hash: found };
    };
    const cache = new KeyCache({ keys: { findByHash }, clock, changes });
    const hashes = Array.from({ length: 100_000 }, (_, number) => number.toString(16).padStart(64, "0"));
    const find = async (asked: string): Promise<unknown> => cache.fresh(asked, clock.monotonic()) ?? cache.find(asked);
    for (const each of hashes) await find(each);
    clock.advance(3_600_000);
    for (const each of hashes) await find(each);
    expect(lookUps).toBe(100_000);
  });

  it("reads changed keys again, also when thousands change", async () => {
    const { cache, keys } = await createCache();
    const numbers = Array.from({ length: 2_500 }, (_, number) => 10 + number);
    for (const number of numbers) {
      await keys.insert(keyRecord(number));
      await cache.find(keyRecord(number).hash);
    }
    keys.lookUps.length = 0;
    for (const number of numbers) cache.forget(keyRecord(number).id);
    for (const number of numbers) await cache.find(keyRecord(number).hash);
    for (const number of numbers) await cache.find(keyRecord(number).hash);
    expect(keys.lookUps).toHaveLength(numbers.length);
  });
});
