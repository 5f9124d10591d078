import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { webhookLeaseMs } from "../../../src/app/config/webhook-settings.js";
import { leaseMs as requestLeaseMs } from "../../../src/domain/metering/lease-keeper.js";
import { startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { keepHistory, readLedgerHistory } from "../../support/redis/ledger-history.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { type HeldClaim, heldInRedis } from "./held-claims.js";
import { answered, seenBy } from "./kill-rounds.js";
import {
  chanceOf,
  haveAllEnded,
  listDeliveries,
  oddlyNumbered,
  repeatsIn,
  toldTwoWays,
  WebhookInbox,
  webhooksHere,
} from "./webhook-inbox.js";

const roundCount = 20;
const answersPerRound = 520;
/** Minimum number of requests with a complete answer. */
const wholeMin = 10_000;
const clientCount = 12;
const killWithinMs = 200;
const awayWithinMs = 1_500;
/** Maximum time from the restart of Redis to the first event of each endpoint. */
const resumedWithinMs = 5_000;
const endedWithinMs = 120_000;
const testMs = 900_000;
const adminToken = randomBytes(16).toString("hex");
const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_ADMIN_TOKEN: adminToken };
const models = [
  { id: "test", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 8, token_delay_ms: 4 } },
];
const paths = ["/one", "/two", "/three", "/four"];
/** Maximum attempts in flight of an endpoint, over all processes. */
const inFlightMax = 8;

let root: string;
let redis: RedisServer;
let inbox: WebhookInbox;
const started: ServiceProcess[] = [];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "uis-tell-"));
  redis = await startRedis({ aof: "everysec", args: keepHistory });
  inbox = await WebhookInbox.open({
    answer: (deliveryId, attempt) => ({
      status: attempt === 1 && chanceOf(deliveryId) < 12 ? 503 : 204,
      afterMs: chanceOf(deliveryId) / 8,
    }),
  });
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await inbox.close();
  await redis.remove();
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string): Promise<ServiceProcess> {
  const config = { state: { redis_url: redis.url }, models, webhooks: webhooksHere };
  const service = await startServiceProcess({ folder: join(root, name), config, env });
  started.push(service);
  return service;
}

/**
 * Kills Redis while no sync is in progress. With `everysec`, Redis acknowledges writes during a sync before it passes them
 * to the kernel, so that a kill at that moment loses acknowledged writes as a power failure does. At any other moment a kill
 * loses nothing.
 */
async function killBetweenSyncs(server: RedisServer): Promise<void> {
  const socket = connect(server.port, "127.0.0.1").setEncoding("latin1");
  // The socket closes with the server.
  socket.on("error", () => {});
  for (let isSyncing = true; isSyncing; ) {
    socket.write("INFO persistence\r\n");
    const [text] = (await once(socket, "data")) as [string];
    isSyncing = !text.includes("aof_pending_bio_fsync:0");
  }
  await server.kill();
  socket.destroy();
}

interface Return {
  /** Time until every endpoint got its first event, except endpoints that had to wait for leases. */
  readonly resumedMs: number;
  /** Claims that the store recorded and no process received, because the connection was lost in between. */
  readonly stuck: number;
  /** Endpoints whose slots were all occupied by such claims. */
  readonly blocked: number;
  /** Claims in the store when Redis was running again. */
  readonly held: readonly HeldClaim[];
}

/** Waits until every endpoint gets events again. */
async function resumed(held: readonly HeldClaim[]): Promise<Return> {
  const backAtMs = performance.now();
  const known = inbox.arrivals.length;
  const waiting = () => {
    const reached = new Set(inbox.arrivals.slice(known).map(({ path }) => path));
    return paths.filter((path) => !reached.has(path));
  };
  const isBackOrLate = () => waiting().length === 0 || performance.now() - backAtMs > resumedWithinMs;
  await eventually(isBackOrLate, "events arrive", resumedWithinMs * 2);
  const blocked = waiting().length;
  const firsts = paths.flatMap((path) => inbox.arrivals.slice(known).find((arrival) => arrival.path === path) ?? []);
  const resumedMs = Math.max(...firsts.map(({ atMs }) => atMs)) - backAtMs;
  if (blocked === 0) return { resumedMs, stuck: 0, blocked, held };
  const fences = new Set((await heldInRedis(redis)).map(({ fence }) => fence));
  const stuck = held.filter(({ fence }) => fences.has(fence)).length;
  await eventually(() => waiting().length === 0, "leases end", webhookLeaseMs + resumedWithinMs);
  return { resumedMs, stuck, blocked, held };
}

describe("events of services whose Redis is killed under load", () => {
  it("none of an answered request is lost, and deliveries resume within 5 s of the restart of Redis (WH-35, WH-32, REL-12)", {
    timeout: testMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    const [one, two] = [await start("one"), await start("two")];
    for (const path of paths) await inbox.makeEndpoint(one, { path, max_in_flight: inFlightMax });
    const clients = startChatClients({
      count: clientCount,
      service: (number) => (number % 2 === 0 ? one : two),
      key: one.key,
      question: () => ({ model: "test", isStream: pick(2) === 0, leaves: false, maxTokens: 8 }),
      pauseMs: 20,
    });
    const returns: Return[] = [];
    for (let round = 0; round < roundCount; round += 1) {
      await answered(clients.answers, answersPerRound);
      await delay(pick(killWithinMs));
      await killBetweenSyncs(redis);
      await delay(pick(awayWithinMs));
      await redis.restart();
      returns.push(await resumed(await heldInRedis(redis)));
    }
    await answered(clients.answers, answersPerRound);
    await clients.end();
    const { whole, broken } = seenBy(clients.answers);
    await eventually(() => whole.every((id) => inbox.hasTaken(id)), "all deliveries have ended", endedWithinMs).catch(
      () => {},
    );
    await eventually(() => haveAllEnded(one.http, adminToken), "all deliveries have ended", endedWithinMs);
    const deliveries = await listDeliveries(one.http, adminToken);
    expect([await one.stop(), await two.stop()]).toEqual([0, 0]);

    const { settled } = await readLedgerHistory(redis, requestLeaseMs);
    const { arrivals } = inbox;
    const repeats = repeatsIn(arrivals);
    const degraded = clients.answers.filter(({ isDegraded }) => isDegraded).length;
    await context.annotate(
      `${roundCount} kills of Redis, ${clients.answers.length} requests, ${whole.length} whole, ${degraded} admitted ` +
        `without the store, ${settled.size} settled; ${arrivals.length} arrivals, ${repeats.total} repeats; resumed after ` +
        `${returns.map(({ resumedMs }) => Math.round(resumedMs)).join("+")} ms, ` +
        `${returns.map(({ stuck }) => stuck).join("+")} claims lost with their answers; seed ${seed}`,
    );
    expect(broken).toEqual([]);
    expect(whole.length).toBeGreaterThanOrEqual(wholeMin);
    expect(whole.filter((id) => !inbox.hasTaken(id))).toEqual([]);
    expect(new Set(arrivals.map(({ requestId }) => requestId))).toEqual(new Set(settled.keys()));
    expect(toldTwoWays(arrivals)).toEqual([]);
    expect(inbox.forged).toBe(0);

    const heldIds = new Set(returns.flatMap(({ held }) => held.map(({ deliveryId }) => deliveryId)));
    expect([...repeats.byDelivery.keys()].filter((id) => !heldIds.has(id))).toEqual([]);
    expect(deliveries.length).toBe(settled.size * paths.length);
    expect(deliveries.filter(({ state }) => state !== "delivered")).toEqual([]);
    expect(oddlyNumbered(deliveries)).toEqual([]);
    for (const { resumedMs, stuck, blocked } of returns) {
      expect(resumedMs).toBeLessThan(resumedWithinMs);
      expect(stuck).toBeGreaterThanOrEqual(blocked * inFlightMax);
    }
  });
});
