import { afterEach, describe, expect, it } from "vitest";
import type { Logger } from "../../../src/domain/call/ports.js";
import { unlimited } from "../../../src/domain/call/rate-limits.js";
import type { State } from "../../../src/domain/service/state.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { neededCommands } from "../../../src/state/redis/connection/permissions.js";
import { openRedisState, type RedisStateDeps } from "../../../src/state/redis/state.js";
import { admission, settlement } from "../../support/records.js";
import { freePort } from "../../support/redis/redis-process.js";
import { openSlowLink } from "../../support/redis/slow-link.js";
import { type RedisServer, type RedisServerOptions, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";

describe("opening a Redis state", () => {
  const servers: RedisServer[] = [];
  const states: State[] = [];
  afterEach(async () => {
    for (const state of states.splice(0)) await state.close();
    for (const server of servers.splice(0)) await server.remove();
  });
  const start = async (options: RedisServerOptions = {}) => {
    const server = await startRedis(options);
    servers.push(server);
    return server;
  };
  const open = async ({ url, tls }: Pick<RedisServer, "url" | "tls">, changes: Partial<RedisStateDeps> = {}) => {
    const deps = { url, tls, log: silentLog, clock: createSystemClock(), allowVolatile: false, ...changes };
    const state = await openRedisState(deps);
    states.push(state);
    return state;
  };

  it("succeeds without a warning if each write is synced", async () => {
    const state = await open(await start({ aof: "always" }));
    const health = await state.health();
    expect(health).toMatchObject({ ok: true, durability: "every-write", warnings: [] });
    expect(health.latencyMs).toBeGreaterThan(0);
    expect(Math.abs(state.now() - Date.now())).toBeLessThan(1_000);
  });

  it("warns if a power failure can lose one second of writes", async () => {
    const warnings: string[] = [];
    const log: Logger = { ...silentLog, warn: (_, message) => warnings.push(message) };
    const state = await open(await start({ aof: "everysec" }), { log });
    expect(await state.health()).toMatchObject({ durability: "one-second", warnings });
    expect(warnings).toEqual([expect.stringContaining("appendfsync always")]);
  });

  it("warns if Redis keeps half of a transaction after a crash", async () => {
    const state = await open(await start({ aof: "always", args: ["--aof-load-truncated", "yes"] }));
    const { warnings } = await state.health();
    expect(warnings).toEqual([expect.stringMatching(/set aof-load-truncated no and run redis-check-aof --fix/)]);
  });

  it("fails if Redis stores no data on disk, unless the setting accepts it", async () => {
    const server = await start({ aof: "no" });
    await expect(open(server)).rejects.toMatchObject({
      name: "StateOpenError",
      message: expect.stringContaining("appendonly no"),
      fix: expect.stringContaining("allow_volatile"),
    });
    const state = await open(server, { allowVolatile: true });
    expect(await state.health()).toMatchObject({ ok: true, durability: "none" });
  });

  it("fails if Redis may evict keys, and health reports a later change to such a setting", async () => {
    const server = await start();
    await server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await expect(open(server)).rejects.toMatchObject({ fix: "set maxmemory-policy noeviction" });
    await server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction");
    const clock = createSystemClock();
    let aheadMs = 0;
    const state = await open(server, { clock: { ...clock, monotonic: () => clock.monotonic() + aheadMs } });
    await server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    aheadMs = 60_000;
    const { ok, warnings } = await state.health();
    expect(ok).toBe(true);
    expect(warnings[0]).toContain("set maxmemory-policy noeviction");
  });

  it("fails on a replica", async () => {
    const server = await start();
    await server.cli("REPLICAOF", "127.0.0.1", "1");
    await expect(open(server)).rejects.toMatchObject({ message: expect.stringContaining("is a replica") });
  });

  it("succeeds over TLS as a user who cannot read the settings, and warns that they were not checked", async () => {
    const state = await open(await start({ tls: true, acl: true }));
    const { ok, warnings } = await state.health();
    expect(ok).toBe(true);
    expect(warnings).toEqual([expect.stringContaining("CONFIG GET APPENDFSYNC")]);
  });

  it("fails immediately with a wrong password, and does not show the password", async () => {
    const server = await start({ acl: true });
    const url = server.url.replace(/\/\/.*@/, "//uis:wrong-password@");
    const refusal = open({ url, tls: null });
    await expect(refusal).rejects.toMatchObject({ message: expect.stringContaining("WRONGPASS") });
    await expect(refusal).rejects.not.toThrow("wrong-password");
  });

  it("fails over TLS with a certificate of an unknown authority", async () => {
    const server = await start({ tls: true });
    await expect(open({ ...server, tls: null }, { openWithinMs: 500 })).rejects.toMatchObject({
      fix: expect.stringContaining("state.redis_tls"),
    });
    const tls = { caFile: "/nowhere/ca.pem", certFile: null, keyFile: null, serverName: null };
    await expect(open({ ...server, tls })).rejects.toThrow("/nowhere/ca.pem for Redis cannot be read");
  });

  it("fails immediately for a user without one of the needed commands, and names the ACL rule (E-27)", async () => {
    const server = await start({ acl: true });
    for (const name of [...neededCommands.keys(), "subscribe"]) {
      await server.cli("ACL", "SETUSER", "uis", `-${name}`);
      const refusal = open(server);
      await expect(refusal).rejects.toMatchObject({ name: "StateOpenError", fix: expect.stringContaining(`+${name}`) });
      await server.cli("ACL", "SETUSER", "uis", `+${name}`);
    }
    await server.cli("ACL", "SETUSER", "uis", "-zadd", "-hset");
    await expect(open(server)).rejects.toMatchObject({
      message: "the Redis user 'uis' may not run HSET, run ZADD, or the server lacks it",
      fix: "allow it: ACL SETUSER uis +hset +zadd",
    });
    await server.cli("ACL", "SETUSER", "uis", "+zadd", "+hset");
    expect(await server.cli("DBSIZE")).toMatch(/^0/);
    expect(await (await open(server)).health()).toMatchObject({ ok: true });
  });

  it.each([
    ["keys", "resetkeys", "~uis:*"],
    ["channels", "resetchannels", "&uis:*"],
  ])("fails for a user without access to the %s (E-27)", async (what, rules, rule) => {
    const server = await start({ acl: true, rules });
    await expect(open(server)).rejects.toMatchObject({
      message: `the Redis user 'uis' may not use the ${what} uis:*, or the server lacks it`,
      fix: `allow it: ACL SETUSER uis ${rule}`,
    });
  });

  it.each(["multi", "discard"])("warns that permissions were not tested for a user without %s (E-27)", async (name) => {
    const server = await start({ acl: true, rules: `-${name}` });
    const warnings: string[] = [];
    const log: Logger = { ...silentLog, warn: (_, message) => warnings.push(message) };
    expect(await (await open(server, { log })).health()).toMatchObject({ ok: true });
    expect(warnings).toContainEqual(expect.stringContaining("may not run MULTI and DISCARD"));
  });

  it("succeeds with a server with a round trip of 300 ms, and reports how slow it is (E-28)", async () => {
    const { port } = new URL((await start()).url);
    const link = await openSlowLink(Number(port));
    link.delayMs = 300;
    const warnings: string[] = [];
    const log: Logger = { ...silentLog, warn: (_, message) => warnings.push(message) };
    const state = await open({ url: link.url, tls: null }, { log });
    expect(warnings).toContainEqual(
      expect.stringMatching(/^Redis takes 3\d\d ms for a round trip\. .*Move Redis closer/),
    );
    expect(await state.health()).toMatchObject({ ok: true });
    const width = "day";
    const reads = [
      state.keys.findByHash("no key"),
      state.usage.rows({ account: "a", width, fromMs: state.now() - 86_400_000, toMs: state.now() }),
      state.ledger.settle(settlement("req_1"), true),
    ];
    expect(await Promise.all(reads)).toEqual([null, [], { duplicate: false, crossed: [] }]);
    await link.close();
  });

  it("waits for a server that is starting, and names the address if it does not start in time", async () => {
    const port = await freePort();
    const url = `redis://127.0.0.1:${port}`;
    await expect(open({ url, tls: null }, { openWithinMs: 300 })).rejects.toThrow(
      `Redis at 127.0.0.1:${port} cannot be used: connect ECONNREFUSED`,
    );
    const opening = open({ url, tls: null });
    // Redis uses the last of two ports on its command line.
    await start({ args: ["--port", String(port)] });
    expect(await (await opening).health()).toMatchObject({ ok: true });
  });

  it("uses the store's time, independently of the clock of the replica (state RL-19)", async () => {
    const server = await start();
    const clock = createSystemClock();
    const late = await open(server, { patience: 20, clock: { ...clock, now: () => clock.now() - 600_000 } });
    const early = await open(server, { patience: 20, clock: { ...clock, now: () => clock.now() + 600_000 } });
    expect(Math.abs(late.now() - early.now())).toBeLessThan(1_000);
    const owner = { kind: "account", id: "a" } as const;
    const scopes = [{ owner, limits: { ...unlimited, requestsPerMinute: 2 } }];
    expect(await late.ledger.admit(admission("req_1", { scopes }))).toMatchObject({ admitted: true });
    expect(await early.ledger.admit(admission("req_2", { scopes }))).toMatchObject({ admitted: true });
    for (const [number, { ledger }] of [late, early].entries()) {
      const refused = await ledger.admit(admission(`req_${number + 3}`, { scopes }));
      expect(refused).toMatchObject({ admitted: false, refusal: { which: "requests", used: 2 } });
    }
  });

  it("reports that the server no longer answers, without failing", async () => {
    const server = await start();
    const state = await open(server);
    await server.kill();
    const health = await state.health();
    expect(health.ok).toBe(false);
    expect(health.warnings[0]).toContain("The store cannot be used");
  });
});
