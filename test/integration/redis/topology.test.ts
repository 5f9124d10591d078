import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createSystemClock } from "../../../src/lib/clock.js";
import { openSnapshot } from "../../../src/state/embedded/copy/snapshot.js";
import { RedisChangeFeed } from "../../../src/state/redis/connection/change-feed.js";
import { RedisConnection } from "../../../src/state/redis/connection/connection.js";
import { openCopyTarget } from "../../../src/state/redis/copy/copy-target.js";
import { eventually } from "../../support/eventually.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis/start-cluster.js";
import { type SentinelGroup, startSentinelGroup } from "../../support/redis/start-sentinel.js";
import { silentLog } from "../../support/silent-log.js";

const clock = createSystemClock();
const timeoutMs = 50;
/** Maximum duration of a call: five times the timeout, for machines that are busy with other work. */
const callMsMax = 250;
const backMsMax = 1_000;

/** Sends consecutive calls until `isOver`; returns the duration of the slowest and the number of failures. */
async function callUntil(isOver: () => Promise<boolean>, call: () => Promise<unknown>) {
  let [slowestMs, failed] = [0, 0];
  while (!(await isOver())) {
    const startedAtMs = performance.now();
    await call().catch(() => {
      failed += 1;
    });
    slowestMs = Math.max(slowestMs, performance.now() - startedAtMs);
    await delay(10);
  }
  return { slowestMs, failed };
}

async function msUntil(what: string, call: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await eventually(
    () =>
      call().then(
        () => true,
        () => false,
      ),
    what,
  );
  return performance.now() - startedAtMs;
}

describe("Redis through Sentinel", () => {
  let group: SentinelGroup;
  let connection: RedisConnection;
  let feed: RedisChangeFeed;
  beforeAll(async () => {
    group = await startSentinelGroup();
    connection = new RedisConnection({ url: group.url, tls: null, clock, log: silentLog });
    feed = new RedisChangeFeed({ connection, clock, log: silentLog });
    await connection.ready(5_000);
    await feed.linked(5_000);
  });
  afterAll(async () => {
    feed?.close();
    await connection?.close();
    await group?.remove();
  });
  const write = () => connection.command("incr", ["uis:count"], timeoutMs);

  it("switches to another primary within a second of its election, without delaying calls", async () => {
    await write();
    await group.primary.kill();
    const isNamed = async () => (await group.primaryPort()) === group.replica.port;
    const { slowestMs, failed } = await callUntil(isNamed, write);
    expect(slowestMs).toBeLessThan(callMsMax);
    expect(failed).toBeGreaterThan(0);
    expect(await msUntil("the new primary is used", write)).toBeLessThan(backMsMax);
    await eventually(() => feed.isLinked, "changes arrive again");
  });

  it("does not use a former primary that restarts as a replica", async () => {
    await group.primary.restart();
    await eventually(
      async () => (await group.primary.cli("ROLE").catch(() => "")).startsWith("slave"),
      "it is a replica",
      20_000,
    );
    expect(await write()).toBeGreaterThan(1);
  });
});

describe("Redis Cluster", () => {
  let cluster: RedisCluster;
  let connection: RedisConnection;
  let feed: RedisChangeFeed;
  beforeAll(async () => {
    cluster = await startRedisCluster();
    connection = new RedisConnection({ url: cluster.url, tls: null, clock, log: silentLog });
    feed = new RedisChangeFeed({ connection, clock, log: silentLog });
    await connection.ready(5_000);
    await feed.linked(5_000);
  });
  afterAll(async () => {
    feed?.close();
    await connection?.close();
    await cluster?.remove();
  });

  const node = (position: number) => {
    const found = cluster.nodes[position];
    if (found === undefined) throw new Error(`there is no node ${position}`);
    return found;
  };
  /** Returns the name of a key that is on this node. */
  const keyOf = async (position: number) => {
    for (let n = 0; ; n += 1) {
      const key = `uis:{${n}}`;
      if (
        await node(position)
          .cli("GET", key)
          .then(
            () => true,
            () => false,
          )
      )
        return key;
    }
  };

  it("reaches the keys of every node", async () => {
    for (const position of [0, 1, 2]) {
      const key = await keyOf(position);
      expect(await connection.command("incr", [key])).toBe(1);
      expect(await node(position).cli("GET", key)).toBe("1");
    }
  });

  it("stores the copy of a state on all nodes, and another copy replaces it (USE-21)", async () => {
    await cluster.flush();
    const folder = await mkdtemp(join(tmpdir(), "uis-cluster-copy-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, "uis.db");
    const packed = new URL("../../fixtures/releases/030d67be/uis.db.gz", import.meta.url);
    await writeFile(file, gunzipSync(await readFile(packed)));
    const source = openSnapshot(file);
    onTestFinished(() => source.close());
    const deps = { url: cluster.url, tls: null, clock, log: silentLog, allowVolatile: false, openWithinMs: 5_000 };
    const target = await openCopyTarget(deps);
    onTestFinished(() => target.close());
    const first = await target.copy(source);
    expect(first.get("deliveries")).toBe(7);
    const sizes = () => Promise.all([0, 1, 2].map(async (position) => Number(await node(position).cli("DBSIZE"))));
    const before = await sizes();
    expect(Math.min(...before)).toBeGreaterThan(0);
    expect(await target.copy(source)).toEqual(first);
    expect(await sizes()).toEqual(before);
    const found = [...(await target.compare(source)).values()];
    expect(found.filter(({ differing, surplus }) => differing + surplus > 0)).toEqual([]);
    await cluster.flush();
  });

  it("is ready after one connection attempt, and then every primary is reachable", async () => {
    const opens = 30;
    /** Number of connections that the primaries have accepted so far, including those of this query. */
    const accepted = async () => {
      const stats = await Promise.all([0, 1, 2].map((position) => node(position).cli("INFO", "stats")));
      const counts = stats.map((text) => Number(/total_connections_received:(\d+)/.exec(text)?.[1]));
      return counts.reduce((sum, count) => sum + count);
    };
    const before = await accepted();
    for (let n = 0; n < opens; n += 1) {
      const opened = new RedisConnection({ url: cluster.url, tls: null, clock, log: silentLog });
      await opened.ready(5_000);
      expect(await opened.onEachPrimary("ping", [], timeoutMs * 5)).toEqual(["PONG", "PONG", "PONG"]);
      await opened.close();
    }
    const more = (await accepted()) - before;
    // Each opening connects to each primary and once more for the layout. Some more are allowed for other activity in these
    // seconds.
    expect(more).toBeLessThanOrEqual(opens * 4 + 10);
  });

  it("while one node is down, keys of other nodes are available, and its keys within a second of its replacement", async () => {
    const [lost, kept] = [await keyOf(0), await keyOf(1)];
    await node(0).kill();
    const isReplaced = async () => {
      const roles = await Promise.all([3, 4, 5].map((position) => node(position).cli("ROLE")));
      return roles.some((role) => role.startsWith("master"));
    };
    const [own, others] = await Promise.all([
      callUntil(isReplaced, () => connection.command("incr", [lost], timeoutMs)),
      callUntil(isReplaced, () => connection.command("get", [kept], callMsMax)),
    ]);
    expect(others.slowestMs).toBeLessThan(callMsMax);
    expect(others.failed).toBe(0);
    expect(own.slowestMs).toBeLessThan(callMsMax);
    expect(own.failed).toBeGreaterThan(0);
    expect(await msUntil("its keys are available", () => connection.command("incr", [lost]))).toBeLessThan(backMsMax);
    await eventually(() => feed.isLinked, "changes arrive");
  });
});
