import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseMs } from "../../../src/domain/metering/lease-keeper.js";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { type ReceivedRequest, type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { fastClock } from "../../support/redis/fast-clock.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import type { DebugState } from "../../support/start-service.js";
import { WebhookCalls } from "./webhook-calls.js";

const concurrent = 64;
const percents = [50, 80, 100];
/** Speed of the store's clock: a lease of a minute ends in six seconds. */
const clockSpeed = 10;
const sweptWithinMs = (leaseMs + 60_000) / clockSpeed + 60_000;
const testMs = 240_000;
const adminToken = `adm_${"0123456789".repeat(4)}`;

const tokens = { prompt: 2, completion: 8 } as const;
const tokensEach = tokens.prompt + tokens.completion;
const even = {
  id: "even",
  engine: "scripted",
  slots: concurrent,
  scripted: { text: "tick", tokens: tokens.completion, token_delay_ms: 20 },
};
/** Slow enough that all requests are running before the first has ended. */
const slow = { ...even, id: "slow", scripted: { text: "tick", tokens: 200, token_delay_ms: 50 } };
const slowTokensMin = 60;

/** A process of the service. */
interface Running {
  readonly http: string;
  readonly ops: string;
  end(signal: NodeJS.Signals): Promise<void>;
}

/** An event as received, with its creation time by the store's clock. */
interface Told {
  readonly id: string;
  readonly created_at: string;
  readonly data: {
    readonly threshold_id: string;
    readonly percent: number;
    readonly threshold: number;
    readonly used: number;
    readonly period_start: string;
  };
}

/** A key whose requests reach a threshold, and that threshold. */
interface Spender {
  readonly account: string;
  readonly key: string;
  readonly thresholdId: string;
}

let root: string;
const opened: (() => Promise<void>)[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-thresholds-"));
});
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
  rmSync(root, { recursive: true, force: true });
});

describe.each(["embedded", "Redis"] as const)(
  "64 simultaneous requests that cross all values of a threshold, over %s",
  (driver) => {
    const masterKey = randomBytes(32).toString("base64");
    const folders: ServiceFolder[] = [];
    let config: object;
    let inbox: Receiver;

    beforeEach(async () => {
      if (driver === "Redis") needsInstalled("gcc");
      const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], retry_delays: ["1s", "1s", "1s"] };
      config = {
        models: [even, slow],
        webhooks,
        ...(driver === "Redis" ? { state: { redis_url: (await redis()).url } } : {}),
      };
      // The first attempt fails, so every event arrives at least twice.
      inbox = await startReceiver({
        answer: ({ headers }) => ({ status: headers["service-attempt"] === "1" ? 503 : 200 }),
      });
      opened.push(() => inbox.close());
      folders.splice(0);
      while (folders.length < (driver === "Redis" ? 2 : 1)) {
        const served = await ServiceFolder.create();
        folders.push(served);
        opened.push(() => served.remove());
      }
    });

    it("cause one event for each value, even if a process is killed and its requests are settled elsewhere and repeated (USE-3, WH-10, WH-11)", {
      timeout: testMs,
    }, async (context) => {
      const { calm, killed } = await setUp();
      const services = await startAll();
      const [survivor, victim] = [services[0] as Running, services.at(-1) as Running];

      await all(services, calm, "even");
      await untilUsed(survivor, calm, concurrent * tokensEach);

      const answered = await dieAmid(services, victim, killed);
      const left = driver === "Redis" ? [survivor] : await startAll();
      const [teller] = left as [Running];
      await untilUsed(teller, killed, concurrent);
      // Clients without an answer repeat their requests, and further requests follow.
      for (const spender of [killed, calm]) await all(left, spender, "even");

      const administrator = new WebhookCalls({ http: teller.http, key: killed.key, adminToken });
      const deliveries = await administrator.until(2 * percents.length, ["delivered"]);
      await eventually(async () => (await debugState(teller)).deliveries.in_flight === 0, "all deliveries have ended");
      await context.annotate(
        `${driver}: ${answered} of ${concurrent} answered before and after the kill, ${concurrent - answered} swept; ` +
          `${inbox.requests.length} attempts of ${deliveries.length} deliveries`,
      );
      expect(answered).toBeLessThan(concurrent);
      expect(deliveries).toHaveLength(2 * percents.length);
      expectTold(calm, concurrent * tokensEach, tokensEach);
      // Each request adds one, and all requests of the killed process were settled, so the sum reaches each value exactly
      // once.
      expectTold(killed, concurrent, 1);
    });

    async function redis(): Promise<RedisServer> {
      const server = await startRedis({ env: fastClock(root, clockSpeed) });
      opened.push(() => server.remove());
      return server;
    }

    async function start(served: ServiceFolder): Promise<Running> {
      const env = { UIS_MASTER_KEY: masterKey, UIS_ADMIN_TOKEN: adminToken, LOG_LEVEL: "error" };
      const { child, exited, line } = await served.start(config, { env });
      return {
        http: new URL(line.api).origin,
        ops: line.ops,
        async end(signal) {
          child.kill(signal);
          await exited;
        },
      };
    }

    function startAll(): Promise<Running[]> {
      return Promise.all(folders.map(start));
    }

    /** Runs before the processes under test, because a process reads the thresholds when it starts. */
    async function setUp(): Promise<{ readonly calm: Spender; readonly killed: Spender }> {
      const service = await start(folders[0] as ServiceFolder);
      const admin = new ServiceClient(service.http, adminToken);
      const spender = async (account: string, metric: string, limit: number): Promise<Spender> => {
        const key = await admin.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", {
          ...{ name: account, account, scope: "SCOPE_READ_WRITE" },
        });
        const secret = String(key.json["secret"]);
        const threshold = { account, metric, period: "PERIOD_MONTH", limit, percents };
        const made = await admin.rpc("unified.admin.v1.ThresholdService/CreateThreshold", { threshold });
        expect([made.status, made.code]).toEqual([200, null]);
        const wanted = { url: inbox.url + account, events: ["usage.threshold_reached"] };
        expect((await new ServiceClient(service.http, secret).post("/v1/webhooks", wanted)).status).toBe(200);
        return { account, key: secret, thresholdId: (made.json["threshold"] as { readonly id: string }).id };
      };
      const calm = await spender("calm", "METRIC_TOKENS", concurrent * tokensEach);
      const killed = await spender("killed", "METRIC_REQUESTS", concurrent);
      await service.end("SIGTERM");
      return { calm, killed };
    }

    /** Sends enough simultaneous requests, over all processes, to cross all values. */
    async function all(services: readonly Running[], { key }: Spender, model: string): Promise<void> {
      const asked = Array.from({ length: concurrent }, (_, number) =>
        ask(services, number, key, model, tokens.completion),
      );
      expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
    }

    /**
     * Sends the same number of requests, which end one after another, and kills the victim when a third have ended.
     * Returns how many were answered.
     */
    async function dieAmid(services: readonly Running[], victim: Running, { key }: Spender): Promise<number> {
      let answered = 0;
      const asked = Array.from({ length: concurrent }, async (_, number) => {
        const status = await ask(services, number, key, slow.id, slowTokensMin + number).catch(() => 0);
        if (status === 200) answered += 1;
      });
      const isRunning = async (): Promise<boolean> => {
        const states = await Promise.all(services.map(debugState));
        return states.reduce((sum, { requests }) => sum + requests.running, 0) === concurrent;
      };
      await eventually(isRunning, "all requests are running");
      await eventually(() => answered >= concurrent / 3, "a third is answered");
      await victim.end("SIGKILL");
      await Promise.all(asked);
      return answered;
    }

    async function ask(services: readonly Running[], number: number, key: string, model: string, maxTokens: number) {
      const { http } = services[number % services.length] as Running;
      return (await new ServiceClient(http, key).chat(model, { max_tokens: maxTokens })).status;
    }

    /** Waits for the given sum: requests of a killed process count when their lease has ended. */
    async function untilUsed({ http }: Running, { thresholdId }: Spender, used: number): Promise<void> {
      const admin = new ServiceClient(http, adminToken);
      const read = async (): Promise<number> => {
        const { json } = await admin.rpc("unified.admin.v1.ThresholdService/ListThresholds");
        const { thresholds } = json as {
          readonly thresholds: readonly { readonly id: string; readonly used?: string }[];
        };
        return Number(thresholds.find(({ id }) => id === thresholdId)?.used ?? 0);
      };
      await expect.poll(read, { timeout: sweptWithinMs, interval: 200 }).toBe(used);
    }

    /** Expects one event for each percentage of the limit, however often it was delivered. */
    function expectTold({ account, thresholdId }: Spender, limit: number, stepMax: number): void {
      const arrived = inbox.requests.filter(({ path }) => path === `/${account}`);
      const bodies = new Map<string, Set<string>>();
      for (const { rawBody, headers } of arrived) {
        const told = parse({ rawBody });
        expect(headers["webhook-id"]).toBe(told.id);
        bodies.set(told.id, (bodies.get(told.id) ?? new Set()).add(rawBody.toString()));
      }
      expect([...bodies.values()].map(({ size }) => size)).toEqual(percents.map(() => 1));
      expect(arrived.length).toBeGreaterThanOrEqual(2 * percents.length);

      const told = [...new Map(arrived.map((request) => [parse(request).id, parse(request)])).values()];
      for (const [i, percent] of percents.entries()) {
        const event = told.find(({ data }) => data.percent === percent);
        const createdAt = new Date(event?.created_at ?? Number.NaN);
        const [year, month] = [createdAt.getUTCFullYear(), createdAt.getUTCMonth()];
        const threshold = Math.ceil((limit * percent) / 100);
        expect(event, `event ${i}`).toEqual({
          id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
          type: "usage.threshold_reached",
          created_at: expect.any(String),
          data: {
            threshold_id: thresholdId,
            metric: account === "calm" ? "tokens" : "requests",
            percent,
            threshold,
            used: expect.any(Number),
            scope: { kind: "account", id: account },
            period_start: new Date(Date.UTC(year, month)).toISOString(),
            period_end: new Date(Date.UTC(year, month + 1)).toISOString(),
          },
        });
        // The event must report the usage of the request that reached the value, not of a later request.
        const used = event?.data.used ?? Number.NaN;
        expect(used).toBeGreaterThanOrEqual(threshold);
        expect(used).toBeLessThan(threshold + stepMax);
      }
    }
  },
);

function parse({ rawBody }: Pick<ReceivedRequest, "rawBody">): Told {
  return JSON.parse(rawBody.toString()) as Told;
}

async function debugState({ ops }: Running): Promise<DebugState> {
  return (await (await fetch(`${ops}/debug/state`)).json()) as DebugState;
}
