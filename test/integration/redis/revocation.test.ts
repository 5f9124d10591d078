import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { openSlowLink, type SlowLink } from "../../support/redis/slow-link.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier, rounds } from "../../support/tier.js";

/** Maximum time until the other replica rejects a revoked key. The aim is 100 ms; busy machines get five times as long. */
const toldMsMax = byTier({ ci: 500, long: 100 });
/** Maximum time until a replica detects a change without its message. */
const untoldMsMax = 30_000;

const pauseMs = 20;

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello." } },
  { id: "test-hang", engine: "scripted", scripted: { text: "One two.", hang_after_tokens: 1 } },
];

describe("two replicas over one Redis", () => {
  let redis: RedisServer;
  /** Connection of the other replica to Redis. */
  let link: SlowLink;
  let one: RunningService;
  let other: RunningService;
  beforeAll(async () => {
    redis = await startRedis();
    const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    link = await openSlowLink(redis.port);
    const start = (redis_url: string) =>
      startService({ config: { state: { redis_url, durability: "every-write" }, models }, env, logLevel: "error" });
    one = await start(redis.url);
    other = await start(link.url);
  });
  afterAll(async () => {
    await one?.close();
    await other?.close();
    await link?.close();
    await redis?.remove();
  });

  const newKey = () => one.service.parts.apiKeys.create({ name: "test", scope: "read_write" });
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
  const modelsOf = async (replica: RunningService, secret: string) =>
    fetch(`${replica.api}/models`, { headers: bearer(secret) });
  const statusOf = async (replica: RunningService, secret: string) => {
    const answer = await modelsOf(replica, secret);
    await answer.arrayBuffer();
    return answer.status;
  };
  /** Whether the key is rejected: with 401, or with 429 after 60 invalid keys from this address within a minute. */
  const isRefused = async (replica: RunningService, secret: string) =>
    [401, 429].includes(await statusOf(replica, secret));
  /** Reads a stream until it ends; resolves with everything received. */
  const stream = async (replica: RunningService, secret: string) => {
    const body = JSON.stringify({ model: "test-hang", messages: [{ role: "user", content: "Hi" }], stream: true });
    const headers = { ...bearer(secret), "content-type": "application/json" };
    return (await fetch(`${replica.api}/chat/completions`, { method: "POST", headers, body })).text();
  };
  /** Eight clients, four per replica, with about 400 requests per second in total. */
  const startLoad = async () => {
    const { secret } = await newKey();
    const statuses = new Set<number>();
    let isOver = false;
    const clients = Array.from({ length: 8 }, async (_, number) => {
      while (!isOver) {
        statuses.add(await statusOf(number % 2 === 0 ? one : other, secret).catch(() => 0));
        await delay(pauseMs);
      }
    });
    const end = async () => {
      isOver = true;
      await Promise.all(clients);
      return [...statuses];
    };
    return { end };
  };
  const isRunning = async (replica: RunningService) => (await replica.debugState()).requests.running > 0;

  it("under load a revoked key is rejected immediately on the replica that revoked it, and within 100 ms on the other (KEY-9, KEY-10)", async () => {
    const keys = [];
    for (let number = 0; number < rounds(1_000); number++) keys.push(await newKey());
    const load = await startLoad();
    const tookMs: number[] = [];
    for (const { record, secret } of keys) {
      expect([await statusOf(one, secret), await statusOf(other, secret)]).toEqual([200, 200]);
      await one.service.parts.apiKeys.revoke(record.id);
      const revokedAtMs = performance.now();
      expect(await isRefused(one, secret)).toBe(true);
      while (!(await isRefused(other, secret))) expect(performance.now() - revokedAtMs).toBeLessThan(untoldMsMax);
      tookMs.push(performance.now() - revokedAtMs);
    }
    expect(await load.end()).toEqual([200]);
    const sorted = tookMs.toSorted((a, b) => a - b);
    expect(sorted[Math.ceil(sorted.length * 0.99) - 1]).toBeLessThan(toldMsMax);
  }, 300_000);

  it("a stream on one replica ends when its key is revoked on the other (KEY-13)", async () => {
    const { record, secret } = await newKey();
    const running = stream(other, secret);
    await eventually(() => isRunning(other), "the stream runs");
    await one.service.parts.apiKeys.revoke(record.id);
    expect(await running).toContain("invalid_api_key");
  });

  it("streams on one replica end within a second when their keys expire or the other replica rotates or restricts them (E-17)", async () => {
    const { apiKeys } = one.service.parts;
    const [rotated, narrowed, expiring] = [await newKey(), await newKey(), await newKey()];
    const running = [rotated, narrowed, expiring].map(({ secret }) => stream(other, secret));
    await eventually(async () => (await other.debugState()).requests.running === 3, "the streams run");
    const changedAtMs = performance.now();
    await apiKeys.update(expiring.record.id, { expiresAtMs: other.service.parts.state.now() + 200 });
    await apiKeys.update(narrowed.record.id, { models: ["test-chat"] });
    await apiKeys.rotate({ id: rotated.record.id, overlapMs: 0, expiresAtMs: null });
    for (const text of await Promise.all(running)) expect(text).toContain("invalid_api_key");
    // The aim is 1.2 s; machines with other work get five times as long, and a missed change would take up to 10 s.
    expect(performance.now() - changedAtMs).toBeLessThan(6_000);
  });

  it("a live stream of the dashboard on one replica ends when a new password on the other ends its session (E-17)", async () => {
    const { sessions } = one.service.parts;
    const { token } = await sessions.begin("admin", { address: "", userAgent: "" });
    const url = `${other.http}/unified.admin.v1.SystemService/WatchOverview`;
    const headers = { "content-type": "application/connect+json", cookie: `uis_session=${token}` };
    const body = Buffer.from([0, 0, 0, 0, 2, ...Buffer.from("{}")]);
    const watch = await fetch(url, { method: "POST", headers, body });
    const changedAtMs = performance.now();
    expect(await sessions.endOthers("admin", null)).toBe(1);
    expect(await watch.text()).toContain("unauthenticated");
    expect(performance.now() - changedAtMs).toBeLessThan(6_000);
  });

  it("a changed key is read again after the subscription was cut (KEY-10, KEY-11)", async () => {
    const { record, secret } = await newKey();
    expect(await statusOf(other, secret)).toBe(200);
    await redis.cli("client", "kill", "type", "pubsub");
    await one.service.parts.apiKeys.revoke(record.id);
    await eventually(() => isRefused(other, secret), "it is refused", toldMsMax);
  });

  it("if the message is lost, a revoked key is rejected and its stream ends within 30 s (KEY-10, KEY-13)", async () => {
    await eventually(() => other.service.parts.state.changes.isLinked, "messages arrive");
    // Repeats the test if the key was read again for another reason, such as a recent reconnect.
    let lost = await revokeUntold();
    for (let tries = 1; tries < 3 && lost.servedMs <= toldMsMax; tries += 1) lost = await revokeUntold();
    expect(lost.servedMs, "the message was not lost").toBeGreaterThan(toldMsMax);
    expect(lost.servedMs).toBeLessThan(untoldMsMax);
    expect(lost.streamed).toContain("invalid_api_key");
    expect(lost.streamMs).toBeLessThan(untoldMsMax);
  });

  /**
   * Revokes two keys, one with a running stream, while messages are lost; returns how long the other replica serves
   * them.
   */
  async function revokeUntold() {
    const [idle, busy] = [await newKey(), await newKey()];
    expect(await statusOf(other, idle.secret)).toBe(200);
    const startedAtMs = performance.now();
    const running = stream(other, busy.secret).then((text) => ({ text, tookMs: performance.now() - startedAtMs }));
    await eventually(() => isRunning(other), "the stream runs");
    link.swallow = "uis:changes";
    await Promise.all([idle, busy].map(({ record }) => one.service.parts.apiKeys.revoke(record.id)));
    const revokedAtMs = performance.now();
    let servedAtMs = revokedAtMs;
    for (;;) {
      const sentAtMs = performance.now();
      if (await isRefused(other, idle.secret)) break;
      servedAtMs = sentAtMs;
      await delay(pauseMs);
    }
    link.swallow = null;
    const { text, tookMs } = await running;
    return { servedMs: servedAtMs - revokedAtMs, streamed: text, streamMs: tookMs };
  }

  it("a replica repeats its revocation if the store lost it in a failover (KEY-10)", async () => {
    const { record, secret } = await newKey();
    await one.service.parts.apiKeys.revoke(record.id);
    await eventually(() => isRefused(other, secret), "it is refused", toldMsMax);
    const lose = async () => {
      const kept = JSON.parse(await redis.cli("HGET", "uis:{k}:keys", record.id)) as object;
      await redis.cli("HSET", "uis:{k}:keys", record.id, JSON.stringify({ ...kept, revokedAtMs: null }));
    };
    await lose();
    await redis.cli("CLIENT", "KILL", "TYPE", "pubsub");
    const isRevoked = async () => (await one.service.parts.apiKeys.get(record.id)).revokedAtMs !== null;
    await eventually(isRevoked, "the key is revoked again");
    await eventually(() => isRefused(other, secret), "it is refused", toldMsMax);
  });

  it("an update and a rotation on one replica apply on the other (KEY-16)", async () => {
    const { apiKeys } = one.service.parts;
    const { record, secret } = await newKey();
    const seen = async () => ((await (await modelsOf(other, secret)).json()) as { data: object[] }).data.length;
    expect(await seen()).toBe(2);
    await apiKeys.update(record.id, { models: ["test-chat"] });
    await eventually(async () => (await seen()) === 1, "the key allows fewer models", toldMsMax);
    const next = await apiKeys.rotate({ id: record.id, overlapMs: 0, expiresAtMs: null });
    await eventually(() => isRefused(other, secret), "the old key is refused", toldMsMax);
    expect(await statusOf(other, next.secret)).toBe(200);
  });

  it("a session that one replica ends is invalid on the other (KEY-22)", async () => {
    const { token, record } = await one.service.parts.sessions.begin("admin", { address: "", userAgent: "" });
    const { parts } = other.service;
    expect(await parts.sessions.authenticate(token)).toMatchObject({ sessionId: record.id });
    await one.service.parts.sessions.end(record.id);
    await expect(parts.sessions.authenticate(token)).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("while Redis is unavailable, cached keys work, and other keys get a retryable error, never 401 (KEY-14)", async () => {
    // An earlier test has cut the connection.
    await eventually(() => other.service.parts.state.changes.isLinked, "messages arrive");
    const { secret } = await newKey();
    const heard: string[] = [];
    const unsubscribe = other.service.parts.state.changes.subscribe((change) => {
      if (change.kind === "key") heard.push(change.id);
    });
    const unseen = await newKey();
    // Otherwise the message of the first key's creation could arrive after its first use, and invalidate it.
    await eventually(() => heard.includes(unseen.record.id), "the messages have arrived");
    unsubscribe();
    expect(await statusOf(other, secret)).toBe(200);
    await redis.kill();
    for (let tries = 0; tries < 5; tries++) expect(await statusOf(other, secret)).toBe(200);
    const refused = await modelsOf(other, unseen.secret);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error: { code: "storage_unavailable" } });
    await redis.restart();
    await eventually(async () => (await statusOf(other, unseen.secret)) === 200, "the new key is served");
    expect(await isRefused(other, "no-such-key-at-all")).toBe(true);
  });
});
