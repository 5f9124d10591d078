import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSystemClock } from "../../../src/lib/clock.js";
import { loadScript } from "../../../src/state/redis/connection/client.js";
import { RedisConnection } from "../../../src/state/redis/connection/connection.js";
import { eventually } from "../../support/eventually.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";

/** Timeout of each call: the timeout of an admission. */
const timeoutMs = 50;
/** Maximum duration of a call: five times the timeout, for machines that are busy with other work. */
const callMsMax = 250;
const backMsMax = 1_000;

describe("Redis failures", () => {
  let server: RedisServer;
  let connection: RedisConnection;
  beforeAll(async () => {
    server = await startRedis({ args: ["--enable-debug-command", "yes"] });
    connection = new RedisConnection({ url: server.url, tls: null, clock: createSystemClock(), log: silentLog });
    await connection.ready(5_000);
  });
  afterAll(async () => {
    await connection?.close();
    await server?.remove();
  });

  const write = () => connection.command<number>("incr", ["uis:count"], timeoutMs);
  const read = () => connection.command<string>("get", ["uis:count"], timeoutMs);
  it("an answer is used if it arrived while this process was suspended", async () => {
    await write();
    for (let round = 0; round < 5; round += 1) {
      const written = write();
      // Longer than the call's timeout, so its timer is due before anything is read.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * timeoutMs);
      await written;
    }
  });

  /** Calls every 10 ms for `ms`; returns the duration of the slowest call, and all results. */
  const callFor = async (ms: number) => {
    const outcomes: { tookMs: number; message: string }[] = [];
    const calls: Promise<unknown>[] = [];
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs) {
      const startedAtMs = performance.now();
      const note = (message: string) => outcomes.push({ tookMs: performance.now() - startedAtMs, message });
      calls.push(
        write().then(
          () => note("done"),
          (error: Error & { code?: string }) => note(`${error.code}: ${error.message}`),
        ),
      );
      await delay(10);
    }
    await Promise.all(calls);
    return {
      slowestMs: Math.max(...outcomes.map(({ tookMs }) => tookMs)),
      messages: [...new Set(outcomes.map(({ message }) => message))],
    };
  };
  const msUntilBack = async () => {
    const startedAtMs = performance.now();
    await eventually(() => write().then(Boolean, () => false), "Redis accepts writes again");
    return performance.now() - startedAtMs;
  };

  it("a killed server is detected immediately, and used again within a second of its restart", async () => {
    await server.kill();
    const { slowestMs, messages } = await callFor(1_500);
    expect(slowestMs).toBeLessThan(callMsMax);
    expect(messages.every((message) => message.startsWith("storage_unavailable: "))).toBe(true);
    await server.restart();
    expect(await msUntilBack()).toBeLessThan(backMsMax);
  });

  it("a frozen server delays no call beyond its timeout, and is used again within a second", async () => {
    server.freeze();
    const { slowestMs, messages } = await callFor(2_500);
    expect(slowestMs).toBeLessThan(callMsMax);
    expect(messages).toContain(
      `storage_unavailable: The store cannot be used: it did not answer within ${timeoutMs} ms.`,
    );
    server.thaw();
    expect(await msUntilBack()).toBeLessThan(backMsMax);
  });

  it("a server that pauses its clients delays no call beyond its timeout", async () => {
    await server.cli("CLIENT", "PAUSE", "1500", "ALL");
    expect((await callFor(1_400)).slowestMs).toBeLessThan(callMsMax);
    expect(await msUntilBack()).toBeLessThan(backMsMax);
  });

  it("an answer after the timeout is discarded and never assigned to another call", async () => {
    await connection.command("mset", ["uis:{n}a", "of a", "uis:{n}b", "of b"]);
    await server.cli("CLIENT", "PAUSE", "200", "ALL");
    await expect(connection.command("get", ["uis:{n}a"], timeoutMs)).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    expect(await connection.command("get", ["uis:{n}b"], 2_000)).toBe("of b");
    expect(await connection.command("get", ["uis:{n}a"], 2_000)).toBe("of a");
  });

  it("a server that is loading its data rejects calls, and is used once loaded", async () => {
    await server.cli("DEBUG", "POPULATE", "2000", "filler");
    await server.cli("BGREWRITEAOF");
    await eventually(async () => (await server.cli("INFO", "persistence")).includes("aof_rewrite_in_progress:0"));
    await server.cli("CONFIG", "SET", "key-load-delay", "500");
    await server.cli("CONFIG", "SET", "loading-process-events-interval-bytes", "1024");
    server.cli("DEBUG", "RELOAD").catch(() => {});
    await eventually(
      () =>
        write().then(
          () => false,
          () => true,
        ),
      "the server loads",
    );
    expect((await callFor(300)).slowestMs).toBeLessThan(callMsMax);
    await eventually(async () => !(await server.cli("PING").catch(() => "LOADING")).includes("LOADING"));
    expect(await msUntilBack()).toBeLessThan(backMsMax);
    await server.cli("CONFIG", "SET", "key-load-delay", "0");
  });

  it("a server that became a replica rejects writes, and reads still succeed", async () => {
    const before = await read();
    await server.cli("REPLICAOF", "127.0.0.1", "1");
    await expect(write()).rejects.toThrow("it is a replica and takes no writes");
    expect(await read()).toBe(before);
    await server.cli("REPLICAOF", "NO", "ONE");
    expect(await msUntilBack()).toBeLessThan(backMsMax);
  });

  it("a server without free memory rejects writes, and reads still succeed", async () => {
    const before = await read();
    await server.cli("CONFIG", "SET", "maxmemory", "1mb");
    await expect(write()).rejects.toThrow("its memory is full");
    expect(await read()).toBe(before);
    await server.cli("CONFIG", "SET", "maxmemory", "0");
    expect(await msUntilBack()).toBeLessThan(backMsMax);
  });

  it("scripts are loaded again into a server that has lost them or was emptied", async () => {
    const firstSeen = loadScript("first-seen");
    const run = () => connection.run(firstSeen, ["uis:{k}:models"], [7, "m"]);
    expect(await run()).toEqual(["7"]);
    await server.cli("SCRIPT", "FLUSH");
    expect(await run()).toEqual(["7"]);
    await server.cli("FLUSHALL");
    expect(await run()).toEqual(["7"]);
  });

  it("persistent scripts are loaded on connecting to a server that has lost them", async () => {
    const firstSeen = loadScript("first-seen");
    const isKnown = () => server.cli("SCRIPT", "EXISTS", firstSeen.sha1);
    await server.cli("SCRIPT", "FLUSH");
    await connection.keepLoaded([firstSeen]);
    expect(await isKnown()).toBe("1");
    await server.kill();
    await server.restart();
    await eventually(async () => (await isKnown()) === "1", "the script is loaded again");
  });

  it("pending calls are answered before the connection closes, and later calls are rejected", async () => {
    const other = new RedisConnection({ url: server.url, tls: null, clock: createSystemClock(), log: silentLog });
    await other.ready(5_000);
    const underWay = other.command("incr", ["uis:other"]);
    await other.close();
    expect(await underWay).toBe(1);
    await expect(other.command("incr", ["uis:other"])).rejects.toMatchObject({ code: "storage_unavailable" });
  });
});
