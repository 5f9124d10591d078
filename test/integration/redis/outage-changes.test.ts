import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { KeyCache } from "../../../src/domain/access/key-cache.js";
import type { StateChange } from "../../../src/domain/call/ports.js";
import type { State } from "../../../src/domain/service/state.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { openRedisState } from "../../../src/state/redis/state.js";
import { keyRecord } from "../../suites/api-key-records.js";
import { eventually } from "../../support/eventually.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";
import { rounds } from "../../support/tier.js";

const clock = createSystemClock();

describe("changes in Redis reach the other replicas", () => {
  let server: RedisServer;
  let writer: State;
  let reader: State;
  let received: StateChange[];
  const open = () =>
    openRedisState({ url: server.url, tls: null, log: silentLog, clock, allowVolatile: false, patience: 4 });
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.remove());
  beforeEach(async () => {
    await server.cli("FLUSHALL");
    [writer, reader] = [await open(), await open()];
    received = [];
    reader.changes.subscribe((change) => void received.push(change));
  });
  afterEach(async () => {
    server.thaw();
    await Promise.all([writer.close(), reader.close()]);
  });
  const hasReceived = (kind: StateChange["kind"]) => received.some((change) => change.kind === kind);

  it("another replica's cache rejects a revoked key within 100 ms in 99 of 100 cases (KEY-10)", async () => {
    const cache = new KeyCache({ keys: reader.keys, clock, changes: reader.changes });
    reader.changes.subscribe((change) => change.kind === "key" && cache.forget(change.id));
    const tookMs: number[] = [];
    for (let number = 1; number <= rounds(1_000); number += 1) {
      const { id, hash } = keyRecord(number);
      await writer.keys.insert(keyRecord(number));
      expect((await cache.find(hash))?.revokedAtMs).toBeNull();
      const startedAtMs = performance.now();
      await writer.keys.revoke(id, 1);
      await eventually(async () => (await cache.find(hash))?.revokedAtMs === 1, "the revocation arrives");
      tookMs.push(performance.now() - startedAtMs);
    }
    tookMs.sort((a, b) => a - b);
    expect(tookMs[Math.floor(tookMs.length * 0.99)]).toBeLessThan(100);
  });

  it("the others count again immediately when a process starts or stops (state RL-16)", async () => {
    const counts = () => [writer.replicas(), reader.replicas()];
    // Each process reports itself every 2 s, so this is shorter than that.
    await eventually(() => counts().join() === "2,2", "each process counts both", 1_500);
    const third = await open();
    await eventually(() => counts().join() === "3,3", "the third one is counted", 1_500);
    await third.close();
    await eventually(() => counts().join() === "2,2", "the third one is removed", 1_500);
  });

  it("each change is delivered once, also to the writer, with its kind and id", async () => {
    const own: StateChange[] = [];
    writer.changes.subscribe((change) => void own.push(change));
    await writer.keys.insert(keyRecord(1));
    await writer.settings.put("secrets.canary", "x", null);
    const expected = [{ kind: "key", id: keyRecord(1).id }, { kind: "settings" }];
    await eventually(() => hasReceived("settings"));
    expect(received).toEqual(expected);
    expect(own).toEqual(expected);
  });

  it("a lost subscription connection is reported immediately, and again when it is restored (KEY-11)", async () => {
    await server.cli("CLIENT", "KILL", "TYPE", "pubsub");
    await eventually(() => hasReceived("lost_link"), "the loss is reported");
    await eventually(() => reader.changes.isLinked && received.length === 2, "the restoration is reported");
    await writer.keys.insert(keyRecord(1));
    await eventually(() => hasReceived("key"));
  });

  it("an open connection without messages is detected, and counts as lost until messages arrive again (KEY-11)", async () => {
    server.freeze();
    await eventually(() => !reader.changes.isLinked, "the silence is detected", 5_000);
    expect(hasReceived("lost_link")).toBe(true);
    server.thaw();
    await eventually(() => reader.changes.isLinked, "the reader is linked");
    await eventually(() => writer.changes.isLinked, "the writer is linked");
    await eventually(() =>
      writer.keys.insert(keyRecord(1)).then(
        () => true,
        () => false,
      ),
    );
    await eventually(() => hasReceived("key"));
  });

  it("while the connection is lost, a cached key is read again before it is accepted (KEY-11)", async () => {
    const cache = new KeyCache({ keys: reader.keys, clock, changes: reader.changes });
    const { id, hash } = keyRecord(1);
    await writer.keys.insert(keyRecord(1));
    await cache.find(hash);
    expect(cache.fresh(hash, clock.monotonic())).toBeDefined();
    await server.cli("ACL", "SETUSER", "default", "resetchannels");
    await server.cli("CLIENT", "KILL", "TYPE", "pubsub");
    await eventually(() => !reader.changes.isLinked);
    expect(cache.fresh(hash, clock.monotonic())).toBeUndefined();
    await server.cli("HSET", "uis:{k}:keys", id, JSON.stringify({ v: 1, ...keyRecord(1), revokedAtMs: 5 }));
    expect((await cache.find(hash))?.revokedAtMs).toBe(5);
    await server.cli("ACL", "SETUSER", "default", "allchannels");
    await eventually(() => reader.changes.isLinked);
  });

  it("while Redis is unavailable, cached keys work and unknown ones are rejected because of the outage (KEY-14)", async () => {
    const cache = new KeyCache({ keys: reader.keys, clock, changes: reader.changes });
    await writer.keys.insert(keyRecord(1));
    expect(await cache.find(keyRecord(1).hash)).not.toBeNull();
    server.freeze();
    expect((await cache.find(keyRecord(1).hash))?.id).toBe(keyRecord(1).id);
    await expect(cache.find(keyRecord(2).hash)).rejects.toMatchObject({ code: "storage_unavailable" });
    await eventually(() => !reader.changes.isLinked);
    expect((await cache.find(keyRecord(1).hash))?.id).toBe(keyRecord(1).id);
  });

  it("processes that share the store are counted, and one that closes is removed", async () => {
    const third = await open();
    expect(third.replicas()).toBe(3);
    await third.close();
    await eventually(() => reader.replicas() === 2 && writer.replicas() === 2, "the closed one is removed");
  });
});
