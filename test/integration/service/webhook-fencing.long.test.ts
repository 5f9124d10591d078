import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { webhookLeaseMs } from "../../../src/app/config/webhook-settings.js";
import { startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { metricLines } from "../../support/metrics-text.js";
import { type DnsServer, startDnsServer } from "../../support/receivers/dns-server.js";
import { claimHistory, keepHistory } from "../../support/redis/ledger-history.js";
import { freePort } from "../../support/redis/redis-process.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { type HeldClaim, heldInRedis } from "./held-claims.js";
import {
  chanceOf,
  haveAllEnded,
  type ListedDelivery,
  listDeliveries,
  oddlyNumbered,
  repeatsIn,
  toldTwoWays,
  WebhookInbox,
  webhooksHere,
} from "./webhook-inbox.js";

const roundCount = 8;
/** Minimum number of attempts in flight of the third process when it is stopped. */
const heldMin = 6;
const testMs = 900_000;
/** Other processes take over and attempt the deliveries of the stopped process when its leases end. */
const takenOverWithinMs = webhookLeaseMs + 45_000;
/** Response delay of the third process's receivers until its last pause; shorter than the attempt timeout. */
const slowMs = 3_000;
let isSlow = true;
const adminToken = randomBytes(16).toString("hex");
const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_ADMIN_TOKEN: adminToken };
const models = [
  { id: "test", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 8, token_delay_ms: 20 } },
];
const paths = ["/one", "/two", "/three"];
const name = "hooks.example.test";
/** A separate resolver gives each process another address, which identifies the process of an attempt. */
const hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4"] as const;
const [, , thirdHost] = hosts;

let root: string;
let redis: RedisServer;
const inboxes: WebhookInbox[] = [];
const resolvers: DnsServer[] = [];
const started: ServiceProcess[] = [];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "uis-fence-"));
  redis = await startRedis({ args: keepHistory });
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await Promise.all([...inboxes.splice(0), ...resolvers.splice(0)].map((each) => each.close()));
  await redis.remove();
  rmSync(root, { recursive: true, force: true });
});

async function start(host: (typeof hosts)[number]): Promise<ServiceProcess> {
  const resolver = await startDnsServer({ [name]: [host] });
  resolvers.push(resolver);
  const webhooks = { ...webhooksHere, dns_servers: [resolver.server], retry_delays: ["5s", "1s", "1s", "1s"] };
  const config = { state: { redis_url: redis.url }, models, webhooks };
  const service = await startServiceProcess({ folder: join(root, host), config, env });
  started.push(service);
  return service;
}

/**
 * Receivers answer the third process late and with a different body, so that the test would notice a result that was
 * recorded after its lease had expired. Half of the other processes' first attempts fail.
 */
async function openInboxes(): Promise<void> {
  const port = await freePort();
  for (const host of hosts) {
    const answer = (deliveryId: string, attempt: number) => {
      const chance = chanceOf(deliveryId);
      if (host === thirdHost) return { status: chance % 4 < 2 ? 200 : 500, body: "late", afterMs: isSlow ? slowMs : 0 };
      return { status: attempt === 1 && chance % 2 === 0 ? 503 : 200, body: "at once" };
    };
    inboxes.push(await WebhookInbox.open({ answer, host, port }));
  }
}

async function makeEndpoints(service: ServiceProcess): Promise<void> {
  const [first, ...others] = inboxes as [WebhookInbox, ...WebhookInbox[]];
  const origin = `http://${name}:${first.receiver.port}/`;
  for (const path of paths) {
    const secret = await first.makeEndpoint(service, { path, origin });
    for (const inbox of others) inbox.knowSecret(path, secret);
  }
}

const arrivedAt = (host: (typeof hosts)[number]) => inboxes[hosts.indexOf(host)]?.arrivals ?? [];

/** Deliveries that only the third process has attempted, and whose attempt will still be in flight for some time. */
function underWay(): Set<string> {
  const sinceMs = performance.now() - (slowMs * 2) / 3;
  const recent = arrivedAt(thirdHost).filter(({ attempt, atMs }) => attempt === 1 && atMs > sinceMs);
  return new Set(recent.map(({ deliveryId }) => deliveryId));
}

async function endsOf({ ops }: ServiceProcess, result: string): Promise<number> {
  const page = await (await fetch(`${ops}/metrics`)).text();
  return metricLines(page, "uis_webhook_deliveries_total")[`{result="${result}"}`] ?? 0;
}

interface Pause {
  /**
   * Deliveries with an attempt that was certainly in flight. Other deliveries may have been about to start or to be
   * recorded.
   */
  readonly held: readonly string[];
  readonly leaseLost: number;
  readonly unrecorded: number;
}

/** Suspends the process while it holds claims, until others have taken over all of them, then resumes it. */
async function pauseBeyondLease(third: ServiceProcess): Promise<Pause> {
  const before = { leaseLost: await endsOf(third, "lease_lost"), unrecorded: await endsOf(third, "unrecorded") };
  await eventually(() => underWay().size >= heldMin, "the third process has attempts in flight", 60_000);
  third.freeze();
  const held = await claimsOf(underWay());
  const byOthers = () => new Set([...arrivedAt(hosts[0]), ...arrivedAt(hosts[1])].map(({ deliveryId }) => deliveryId));
  await eventually(
    () => held.every(({ deliveryId }) => byOthers().has(deliveryId)),
    "all deliveries are taken over",
    takenOverWithinMs,
  );
  third.thaw();
  const news = async (result: string, known: number) => (await endsOf(third, result)) - known;
  const ended = async () => ({
    held: held.map(({ deliveryId }) => deliveryId),
    leaseLost: await news("lease_lost", before.leaseLost),
    unrecorded: await news("unrecorded", before.unrecorded),
  });
  await eventually(async () => {
    const { leaseLost, unrecorded } = await ended();
    return leaseLost + unrecorded >= held.length;
  }, "the third process reports its lost leases");
  return ended();
}

/** Claims of the given deliveries. */
async function claimsOf(deliveryIds: ReadonlySet<string>): Promise<HeldClaim[]> {
  return (await heldInRedis(redis)).filter(({ deliveryId }) => deliveryIds.has(deliveryId));
}

/** Maximum error of a process's estimate of the store's time. */
const clockSlackMs = 500;

/** Recorded attempts during which the delivery was claimed again, so that their result is from an outdated claim. */
function outlived(
  deliveries: readonly ListedDelivery[],
  claimedAtMs: ReadonlyMap<string, readonly number[]>,
): string[] {
  return deliveries.flatMap(({ id, attempts }) =>
    attempts.flatMap(({ number, startedAt, latencyMs = 0 }) => {
      const beganAtMs = Date.parse(startedAt);
      const isBetween = (atMs: number) => atMs > beganAtMs + clockSlackMs && atMs <= beganAtMs + Number(latencyMs);
      return claimedAtMs.get(id)?.some(isBetween) ? `${id}/${number}` : [];
    }),
  );
}

describe("three processes on one Redis, one of which is suspended for longer than its leases", () => {
  it("an attempt that ends after a takeover does not count, and no delivery is lost (WH-33, WH-32)", {
    timeout: testMs,
  }, async (context) => {
    if (process.platform !== "linux") context.skip("only Linux has all of 127.0.0.0/8");
    await openInboxes();
    const [one, two, third] = [await start(hosts[0]), await start(hosts[1]), await start(hosts[2])];
    await makeEndpoints(one);
    const services = [one, two, third];
    // Clients of the third process wait while it is suspended.
    const clients = startChatClients({
      count: 6,
      service: (number) => services[number % 3] ?? null,
      key: one.key,
      question: () => ({ model: "test", isStream: false, leaves: false, maxTokens: 8 }),
      pauseMs: 20,
    });
    const pauses: Pause[] = [];
    for (let round = 0; round < roundCount; round += 1) pauses.push(await pauseBeyondLease(third));
    isSlow = false;
    await clients.end();
    await eventually(() => haveAllEnded(one.http, adminToken), "all deliveries have ended", 120_000);
    const deliveries = await listDeliveries(one.http, adminToken);
    const claimed = await claimHistory(redis, webhookLeaseMs);

    const arrivals = inboxes.flatMap(({ arrivals }) => arrivals);
    const held = pauses.flatMap((pause) => pause.held);
    const sumOf = (which: "leaseLost" | "unrecorded") => pauses.reduce((sum, pause) => sum + pause[which], 0);
    await context.annotate(
      `${roundCount} pauses with ${pauses.map((pause) => pause.held.length).join("+")} claims held, ` +
        `${sumOf("leaseLost")} reported as lease_lost, ${sumOf("unrecorded")} as unrecorded; ${clients.answers.length} requests, ` +
        `${deliveries.length} deliveries, ${arrivals.length} arrivals, ${repeatsIn(arrivals).total} repeats`,
    );
    for (const { held: ids, leaseLost, unrecorded } of pauses) {
      expect(leaseLost).toBeGreaterThan(0);
      expect(leaseLost + unrecorded).toBeGreaterThanOrEqual(ids.length);
    }
    expect([await endsOf(one, "lease_lost"), await endsOf(two, "lease_lost")]).toEqual([0, 0]);

    expect(outlived(deliveries, claimed)).toEqual([]);
    expect(oddlyNumbered(deliveries)).toEqual([]);
    const unclaimed = deliveries.filter(({ id, attemptsMade }) => (claimed.get(id)?.length ?? 0) < attemptsMade);
    expect(unclaimed).toEqual([]);
    // A successful attempt must be the last one: no later attempt followed or replaced it.
    const undone = deliveries.filter(({ attempts }) => attempts.slice(0, -1).some(({ status }) => status === 200));
    expect(undone).toEqual([]);
    const byId = new Map(deliveries.map((delivery) => [delivery.id, delivery]));
    const firstOf = (id: string) => byId.get(id)?.attempts[0]?.ip;
    expect(held.filter((id) => firstOf(id) === thirdHost)).toEqual([]);

    // No request has two different events, and every answered request has one.
    expect(toldTwoWays(arrivals)).toEqual([]);
    const toldOf = new Set(arrivals.map(({ requestId }) => requestId));
    const whole = clients.answers.filter(({ outcome }) => outcome === "completed");
    expect(whole.filter(({ requestId }) => !toldOf.has(requestId ?? ""))).toEqual([]);
    expect(inboxes.reduce((sum, { forged }) => sum + forged, 0)).toBe(0);
  });
});
