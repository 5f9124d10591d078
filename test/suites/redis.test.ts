import { afterAll, beforeAll, describe } from "vitest";
import { createSystemClock } from "../../src/lib/clock.js";
import { openRedisState } from "../../src/state/redis/state.js";
import { startRedisCluster } from "../support/redis/start-cluster.js";
import { startRedis } from "../support/redis/start-redis.js";
import { startSentinelGroup } from "../support/redis/start-sentinel.js";
import { silentLog } from "../support/silent-log.js";
import { describeState, describeTopology, type OpenState } from "./state.suite.js";

interface Servers {
  readonly url: string;
  readonly tls: Parameters<typeof openRedisState>[0]["tls"];
  flush(): Promise<unknown>;
  remove(): Promise<void>;
}

function describeRedis(
  name: string,
  start: () => Promise<Servers>,
  describeAll: (name: string, open: OpenState) => void,
): void {
  describe(name, () => {
    let servers: Servers;
    beforeAll(async () => {
      servers = await start();
    }, 60_000);
    afterAll(() => servers?.remove());

    describeAll(name, async (bounds) => {
      await servers.flush();
      let shiftMs = 0;
      const state = await openRedisState({
        url: servers.url,
        tls: servers.tls,
        log: silentLog,
        clock: createSystemClock(),
        allowVolatile: false,
        timeShiftMs: () => shiftMs,
        patience: 20,
        ...bounds,
      });
      return {
        state,
        leewayMs: 5_000,
        async advance(ms) {
          shiftMs += ms;
          // This call updates the estimated time, because every answer of the store contains its time.
          await state.health();
        },
        close: () => state.close(),
      };
    });
  });
}

const flushed = <S extends { cli(command: string): Promise<unknown> }>(server: S) => ({
  ...server,
  flush: () => server.cli("FLUSHALL"),
});

describeRedis("Redis", async () => flushed(await startRedis({ aof: "always" })), describeState);

describeRedis(
  "Redis over TLS as an ACL user",
  async () => flushed(await startRedis({ tls: true, acl: true })),
  describeTopology,
);

describeRedis(
  "Redis through Sentinel",
  async () => {
    const group = await startSentinelGroup();
    return { url: group.url, tls: null, flush: () => group.primary.cli("FLUSHALL"), remove: () => group.remove() };
  },
  describeTopology,
);

describeRedis(
  "Redis Cluster",
  async () => {
    const cluster = await startRedisCluster();
    return { url: cluster.url, tls: null, flush: () => cluster.flush(), remove: () => cluster.remove() };
  },
  (name, open) => describeTopology(name, open, { isCluster: true }),
);
