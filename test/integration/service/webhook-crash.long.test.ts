import { randomBytes } from "node:crypto";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseMs as requestLeaseMs } from "../../../src/domain/metering/lease-keeper.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { type ChatClients, type Question, startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { keepHistory, readLedgerHistory } from "../../support/redis/ledger-history.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { type HeldClaim, heldInFile, heldInRedis } from "./held-claims.js";
import { lostInLogs, seenBy, Victim } from "./kill-rounds.js";
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

const roundCount = 20;
const answersPerRound = 520;
/** Minimum number of requests with a complete answer. */
const wholeMin = 10_000;
const clientCount = 16;
const sweptWithinMs = requestLeaseMs + 60_000 + 30_000;
/** Timeout for the deliveries after the last kill: attempts in flight repeat after a lease of 15 s. */
const toldWithinMs = 120_000;
const testMs = 900_000;
const adminToken = randomBytes(16).toString("hex");
const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_ADMIN_TOKEN: adminToken };
const models = [
  { id: "quick", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 8 } },
  /** This model nearly always has running requests when the process is killed. */
  { id: "slow", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 8, token_delay_ms: 6 } },
];
const paths = ["/one", "/two"];
/**
 * Maximum attempts in flight of a process, and of an endpoint. Claims of the dead process occupy slots until their
 * leases end; the rest leaves room for attempts in flight at the next kill.
 */
const inFlightMax = 64;

let root: string;
let redis: RedisServer | null = null;
let inbox: WebhookInbox;
const started: ServiceProcess[] = [];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "uis-tell-"));
  // Attempts are slow enough to be in flight when the process dies; some first attempts fail and are retried.
  inbox = await WebhookInbox.open({
    answer: (deliveryId, attempt) => ({
      status: attempt === 1 && chanceOf(deliveryId) < 12 ? 503 : 204,
      afterMs: chanceOf(deliveryId) / 4,
    }),
  });
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await inbox.close();
  await redis?.remove();
  redis = null;
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, state: object): Promise<ServiceProcess> {
  const config = { state, models, webhooks: webhooksHere };
  const service = await startServiceProcess({ folder: join(root, name), config, env });
  started.push(service);
  return service;
}

async function makeEndpoints(service: ServiceProcess): Promise<void> {
  for (const path of paths) await inbox.makeEndpoint(service, { path, max_in_flight: inFlightMax });
}

function questions(pick: (count: number) => number): () => Question {
  return () => {
    const model = pick(2) === 0 ? "quick" : "slow";
    return { model, isStream: pick(2) === 0, leaves: false, maxTokens: 8 };
  };
}

/** The results after the last kill, when all deliveries have ended. */
interface Told {
  readonly clients: ChatClients;
  /** Requests that the store has settled. */
  readonly settled: ReadonlySet<string>;
  /** Claims that the dead process held, one list per kill. */
  readonly held: readonly (readonly HeldClaim[])[];
  readonly deliveries: readonly ListedDelivery[];
}

/** Number of claims at each kill that were not held at an earlier kill. */
function newClaims(held: readonly (readonly HeldClaim[])[]): number[] {
  const known = new Set<string>();
  return held.map((claims) => {
    const before = known.size;
    for (const { deliveryId, fence } of claims) known.add(`${deliveryId}/${fence}`);
    return known.size - before;
  });
}

function figuresOf({ clients, settled, held }: Told): string {
  const { whole, broken } = seenBy(clients.answers);
  return (
    `${roundCount} kills, ${clients.answers.length} requests, ${whole.length} whole, ${broken.length} cut after their ` +
    `first byte, ${settled.size} settled, ${lostInLogs(started).length} by a sweep; ${inbox.arrivals.length} arrivals, ` +
    `${repeatsIn(inbox.arrivals).total} repeats of ${newClaims(held).join("+")} claims held`
  );
}

function expectAllTold({ clients, settled, held, deliveries }: Told, processes: number): void {
  const { arrivals, forged } = inbox;
  const { whole } = seenBy(clients.answers);
  const lost = lostInLogs(started);
  expect(whole.length).toBeGreaterThanOrEqual(wholeMin);
  expect(whole.filter((id) => !inbox.hasTaken(id))).toEqual([]);
  // Includes requests whose answer was cut off; excludes requests that the store does not contain.
  expect(new Set(arrivals.map(({ requestId }) => requestId))).toEqual(settled);
  expect(toldTwoWays(arrivals)).toEqual([]);
  expect(forged).toBe(0);
  const wholeIds = new Set(whole);
  const failed = new Map(arrivals.flatMap(({ requestId, code }) => (code === "" ? [] : [[requestId, code]])));
  expect([...failed.keys()].filter((id) => wholeIds.has(id))).toEqual([]);
  expect(new Set(failed.values())).toEqual(new Set(["replica_lost"]));
  expect([...failed.keys()].sort()).toEqual([...lost].sort());

  const repeats = repeatsIn(arrivals);
  const heldFences = new Map<string, Set<string>>();
  for (const { deliveryId, fence } of held.flat()) {
    heldFences.set(deliveryId, (heldFences.get(deliveryId) ?? new Set()).add(fence));
  }
  const unexplained = [...repeats.byDelivery].filter(([id, times]) => times > (heldFences.get(id)?.size ?? 0));
  expect(unexplained).toEqual([]);
  const newlyHeld = newClaims(held);
  for (const count of newlyHeld) expect(count).toBeLessThanOrEqual(inFlightMax * processes);
  expect(Math.max(...newlyHeld)).toBeGreaterThan(0);

  expect(deliveries.length).toBe(settled.size * paths.length);
  expect(deliveries.filter(({ state }) => state !== "delivered")).toEqual([]);
  expect(oddlyNumbered(deliveries)).toEqual([]);
}

describe("events of a service that is killed under load", () => {
  it("with the embedded store none of an answered request is lost, and only deliveries in flight repeat, with the same bytes (WH-32, REL-12)", {
    timeout: testMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    const victim = new Victim(() => start("one", {}));
    const first = await victim.start();
    await makeEndpoints(first);
    const { key } = first;
    const service = () => victim.service;
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    const held: HeldClaim[][] = [];
    const dataDir = join(root, "one", "data");
    const whileDead = async () => {
      // Opening the file itself would already recover it, so this reads a copy.
      const copy = join(root, `copy-${held.length}`);
      cpSync(dataDir, copy, { recursive: true });
      held.push(heldInFile(copy));
    };
    await victim.dieOften(clients, { rounds: roundCount, answersPerRound, pick, whileDead });
    await clients.end();
    const http = victim.service?.http ?? "";
    await eventually(() => haveAllEnded(http, adminToken), "all deliveries have ended", toldWithinMs);
    const deliveries = await listDeliveries(http, adminToken);
    expect(await victim.service?.stop()).toBe(0);

    const told = { clients, settled: settledInFile(dataDir), held, deliveries };
    await context.annotate(`embedded: ${figuresOf(told)}; seed ${seed}`);
    expectAllTold(told, 1);
  });

  it("with Redis none of an answered request is lost, and another process takes over the deliveries of the killed one (WH-32, REL-12)", {
    timeout: testMs + sweptWithinMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    const server = await startRedis({ args: keepHistory });
    redis = server;
    const state = { redis_url: server.url };
    const survivor = await start("survivor", state);
    const victim = new Victim(() => start("victim", state));
    await victim.start();
    await makeEndpoints(survivor);
    const { key } = survivor;
    const service = (number: number) => (number % 2 === 0 ? survivor : victim.service);
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    const held: HeldClaim[][] = [];
    const whileDead = async () => void held.push(await heldInRedis(server));
    await victim.dieOften(clients, { rounds: roundCount, answersPerRound, pick, whileDead });
    await clients.end();
    await eventually(() => hasNoLeases(server), "all leases have ended", sweptWithinMs);
    await eventually(() => haveAllEnded(survivor.http, adminToken), "all deliveries have ended", toldWithinMs);
    const deliveries = await listDeliveries(survivor.http, adminToken);
    expect([await survivor.stop(), await victim.service?.stop()]).toEqual([0, 0]);

    const { settled } = await readLedgerHistory(server, requestLeaseMs);
    const told = { clients, settled: new Set(settled.keys()), held, deliveries };
    await context.annotate(`Redis: ${figuresOf(told)}; seed ${seed}`);
    expectAllTold(told, 2);
  });
});

/** Ids of the requests that the stopped service has settled. */
function settledInFile(dataDir: string): ReadonlySet<string> {
  const db = openSqlite(databaseFile(dataDir));
  const rows = db.prepare("SELECT request_id FROM settled").all();
  db.close();
  return new Set(rows.map((row) => String(row["request_id"])));
}

const lookEveryMs = 200;

/** A shard without running requests has no set of leases. */
async function hasNoLeases(server: RedisServer): Promise<boolean> {
  await delay(lookEveryMs);
  return (await server.cli("--scan", "--pattern", "uis:*:leases")) === "";
}
