import { afterAll, beforeAll, describe, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { OutageBench, outageTimes, type Trouble, troubleMs } from "../../support/outage-bench.js";
import { openSlowLink, type SlowLink } from "../../support/redis/slow-link.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis/start-cluster.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { startSentinelGroup } from "../../support/redis/start-sentinel.js";

const ids = "(REL-15, state RL-16, state RL-17, USE-11)";

describe("one failing Redis under two services", () => {
  let redis: RedisServer;
  let bench: OutageBench;
  const answers = () => eventually(async () => (await redis.cli("PING").catch(() => "")) === "PONG", "it answers");
  const troubles: Readonly<Record<string, Trouble>> = {
    // The outage is longer than a window: then only the shares of the processes limit admissions, and not earlier charges
    // in the store.
    killed: {
      begin: () => redis.kill(),
      end: () => redis.restart(),
      awayMs: 75_000,
    },
    frozen: { begin: async () => redis.freeze(), end: async () => redis.thaw() },
    paused: { begin: () => redis.cli("CLIENT", "PAUSE", String(outageTimes.awayMs), "ALL"), end: answers },
    full: {
      begin: () => redis.cli("CONFIG", "SET", "maxmemory", "1mb"),
      end: () => redis.cli("CONFIG", "SET", "maxmemory", "0"),
    },
    "read-only": {
      begin: () => redis.cli("REPLICAOF", "127.0.0.1", "1"),
      end: () => redis.cli("REPLICAOF", "NO", "ONE"),
    },
  };
  beforeAll(async () => {
    redis = await startRedis();
    bench = await OutageBench.start(redis.url, Object.keys(troubles));
  });
  afterAll(async () => {
    await bench?.remove();
    await redis?.remove();
  });

  it.each(Object.entries(troubles))(
    `requests continue, limits hold and usage is complete with Redis %s ${ids}`,
    async (name, trouble) => {
      await bench.survive(name, trouble);
    },
    troubleMs,
  );
});

describe("a slow Redis shared by two services", () => {
  let redis: RedisServer;
  let link: SlowLink;
  let bench: OutageBench;
  const delays = [50, 100, 200, 500];
  beforeAll(async () => {
    redis = await startRedis();
    link = await openSlowLink(redis.port);
    bench = await OutageBench.start(
      link.url,
      delays.map((ms) => `slow-${ms}`),
    );
  });
  afterAll(async () => {
    await bench?.remove();
    await link?.close();
    await redis?.remove();
  });

  const slowBy = (delayMs: number): Trouble => ({
    async begin() {
      link.delayMs = delayMs;
    },
    async end() {
      link.delayMs = 0;
    },
  });
  it.each(delays)(
    `requests continue, limits hold and usage is complete with Redis slower by %i ms ${ids}`,
    async (delayMs) => {
      await bench.survive(`slow-${delayMs}`, slowBy(delayMs));
    },
    troubleMs,
  );
});

describe("a Redis failover under two services", () => {
  /** The process started last is removed first. */
  const startBench = async (store: { readonly url: string; remove(): Promise<void> }, name: string) => {
    onTestFinished(() => store.remove());
    const bench = await OutageBench.start(store.url, [name]);
    onTestFinished(() => bench.remove());
    return bench;
  };

  it(
    `requests continue, limits hold and usage is complete with Redis failing over by Sentinel ${ids}`,
    async () => {
      const sentinels = await startSentinelGroup();
      const bench = await startBench(sentinels, "fail-over");
      await bench.survive("fail-over", {
        begin: () => sentinels.primary.kill(),
        end: () =>
          eventually(async () => (await sentinels.primaryPort()) === sentinels.replica.port, "the failover", 30_000),
      });
    },
    troubleMs,
  );

  it(
    `requests continue, limits hold and usage is complete when the cluster loses the account's node ${ids}`,
    async () => {
      const nodes = await startRedisCluster();
      const bench = await startBench(nodes, "lost-node");
      const place = await placeOf(nodes, "uis:{s5}:format");
      const [lost, replacements] = [nodes.nodes[place], nodes.nodes.slice(3)];
      const isReplaced = async () =>
        (await Promise.all(replacements.map((node) => node.cli("ROLE")))).some((role) => role.startsWith("master"));
      await bench.survive("lost-node", {
        begin: async () => lost?.kill(),
        end: () => eventually(isReplaced, "its replica takes over", 30_000),
      });
    },
    troubleMs,
  );
});

/** Returns the index of the initial primary of the cluster that has this key. */
async function placeOf({ nodes }: RedisCluster, key: string): Promise<number> {
  const has = await Promise.all(
    nodes.slice(0, 3).map((node) =>
      node.cli("GET", key).then(
        () => true,
        () => false,
      ),
    ),
  );
  return has.indexOf(true);
}
