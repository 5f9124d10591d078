import { availableParallelism, loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { metricLines } from "../../support/metrics-text.js";
import { refusingPort } from "../../support/receivers/listener.js";
import { type ReceivedRequest, type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { startReceiverThread } from "../../support/receivers/receiver-thread.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type Answer, startSteadyLoad } from "../../support/steady-load.js";
import { WebhookCalls } from "./webhook-calls.js";
import { addEndpoint, LoadedService, leastOf, quantile, type Sender } from "./webhook-load.js";

const endpointCount = 200;
/** Whether the machine has little other work. Otherwise time bounds are larger, because that work delays the service. */
const isQuiet = (loadavg()[0] ?? 0) < availableParallelism();
const slack = isQuiet ? 1 : 5;
const testMs = 300_000;

const opened: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

async function start(config: object, webhooks: object = {}): Promise<LoadedService> {
  const service = await LoadedService.start(config, webhooks);
  opened.push(() => service.close());
  return service;
}

/** A receiver that listens on all addresses of this machine. */
async function receiver(answer?: "hang"): Promise<Receiver> {
  const started = await startReceiver({ host: "0.0.0.0", ...(answer === undefined ? {} : { answer }) });
  opened.push(() => started.close());
  return started;
}

/** URL of endpoint `number`; each endpoint has a separate host. */
const urlOf = (number: number, port: number): string => `http://127.0.1.${number}:${port}/hook`;

const quick = { id: "quick", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 4 } };

describe("200 endpoints, of which one hangs and one rejects", () => {
  const offered = 2_000;
  const perSecond = 100;
  const toBad = (offered / endpointCount) * 2;
  const aimMs = 1_000;
  /** Maximum growth of memory, in MiB. */
  const growthMax = 48;
  const embedded = { driver: "embedded", accounts: 1 };
  const redis = { driver: "Redis", accounts: 20 };
  const shapes = [embedded, redis, { driver: "embedded", accounts: 20 }, { driver: "Redis", accounts: 1 }];

  it.for(shapes)(
    "the 198 others get 100 deliveries a second on time, and memory does not grow ($driver, accounts: $accounts) (WH-37, REL-14)",
    {
      timeout: testMs,
    },
    async ({ driver, accounts }, context) => {
      const service = await start({ models: [quick], ...(await stateOf(driver)) });
      const [good, hanging, refusing] = [await receiver(), await receiver("hang"), await refusingPort()];
      const perAccount = endpointCount / accounts;
      const senders: Sender[] = [];
      for (let first = 1; first <= endpointCount; first += perAccount) {
        const sender = await service.sender(`account-${first}`);
        const urls = Array.from({ length: perAccount }, (_, i) =>
          urlOf(first + i, [hanging.port, refusing][first + i - 1] ?? good.port),
        );
        await Promise.all(urls.map((url) => addEndpoint(sender, url)));
        senders.push(sender);
      }
      // The first deliveries allocate memory that later ones reuse, so they are not measured.
      await offer(senders, endpointCount, perAccount);
      await good.until(endpointCount - 2, testMs);

      const memory = watch(() => service.mebibytes());
      const held = watch(() => hanging.open);
      const least = await leastOf(aimMs, async () => {
        const before = good.requests.length;
        await offer(senders, offered, perAccount);
        await good.until(before + offered - toBad, testMs);
        const waits = good.requests.slice(before).map(({ rawBody, arrivedAtMs }) => arrivedAtMs - createdAtMs(rawBody));
        const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map((share) => quantile(waits, share));
        await context.annotate(`${waits.length} delivered: p50 ${p50Ms} ms, p99 ${p99Ms} ms, max ${maxMs} ms`);
        return p99Ms ?? Number.NaN;
      });
      const [mebibytes, open] = [memory.end(), held.end()];
      const [atFirst = 0, atMost] = [mebibytes[0], Math.max(...mebibytes)];
      await context.annotate(`memory ${atFirst.toFixed(0)} MiB at first, ${atMost.toFixed(0)} MiB at most`);
      expect(least).toBeLessThan(aimMs * slack);
      expect(new Set(good.requests.map(deliveryOf)).size).toBe(good.requests.length);
      expect(atMost - atFirst).toBeLessThan(growthMax);
      expect(Math.max(...open)).toBeGreaterThan(0);
      expect(Math.max(...open)).toBeLessThanOrEqual(8);
      const results = metricLines(await service.metrics(), "uis_webhook_deliveries_total");
      expect(results['{result="awaiting_retry"}']).toBeGreaterThanOrEqual(toBad / 2);
    },
  );

  async function stateOf(driver: string): Promise<object> {
    if (driver === "embedded") return {};
    const server: RedisServer = await startRedis();
    opened.push(() => server.remove());
    return { state: { redis_url: server.url } };
  }

  /** Sends requests of the senders in rotation; each request creates `perRequest` deliveries. */
  async function offer(senders: readonly Sender[], deliveries: number, perRequest: number): Promise<void> {
    const startedAtMs = performance.now();
    const asked: Promise<unknown>[] = [];
    for (let made = 0; made < deliveries; made += perRequest) {
      await delay(startedAtMs + (made * 1_000) / perSecond - performance.now());
      const sender = senders[(made / perRequest) % senders.length];
      asked.push(expect(sender?.client.chat("quick")).resolves.toMatchObject({ status: 200 }));
    }
    await Promise.all(asked);
  }

  function deliveryOf({ headers }: ReceivedRequest): string {
    return String(headers["service-delivery-id"]);
  }

  /** Time at which the event was created, before it was stored. */
  function createdAtMs(body: Buffer): number {
    return Date.parse((JSON.parse(body.toString()) as { readonly created_at: string }).created_at);
  }

  /** Samples a value every 50 ms. */
  function watch(look: () => number): { end(): readonly number[] } {
    const seen = [look()];
    const timer = setInterval(() => seen.push(look()), 50);
    return {
      end() {
        clearInterval(timer);
        return seen;
      },
    };
  }
});

describe("thousands of deliveries due at the same time", () => {
  const due = 10_000;
  const idleMs = 3_000;
  /** Requests of each model per second: few enough that they do not delay each other. */
  const rate = 20;
  const aim = 1.5;
  const models = [quick, { ...quick, id: "chat", scripted: { text: "tick", tokens: 16, token_delay_ms: 10 } }];

  it("do not slow requests down: the p99 latency of chats is at most 1.5 times the p99 without deliveries (WH-52)", {
    timeout: testMs,
  }, async (context) => {
    const service = await start({ models });
    const receivers = await startReceiverThread();
    opened.push(() => receivers.close());
    const [sender, { key }] = [await service.sender("busy"), await service.sender("asking")];
    const urls = Array.from({ length: endpointCount }, (_, i) => urlOf(i + 1, receivers.port));
    await Promise.all(urls.map((url) => addEndpoint(sender, url)));
    const askDuring = async (what: () => Promise<unknown>): Promise<readonly Answer[]> => {
      const asking = startSteadyLoad({ services: [service.http], key, rates: { chat: rate, quick: rate } });
      await what();
      return asking.end();
    };
    const makeDue = async (count: number): Promise<void> => {
      await Promise.all(Array.from({ length: count / endpointCount }, () => sender.client.chat("quick")));
    };
    // One-time work such as compilation is not measured.
    await makeDue(due / 10);
    await askDuring(() => service.drained());

    const least = await leastOf(aim, async () => {
      const before = await askDuring(() => delay(idleMs));
      await makeDue(due);
      const ended = await endedAttempts(service);
      const sinceMs = performance.now();
      const busy = await askDuring(() => service.drained());
      const drainedMs = Math.round(performance.now() - sinceMs);
      const sent = (await endedAttempts(service)) - ended;
      const idle = [...before, ...(await askDuring(() => delay(idleMs)))];
      await context.annotate(
        `${sent} deliveries within ${drainedMs} ms; ${compared("chat", idle, busy)}; ${compared("quick", idle, busy)}`,
      );
      expect([...idle, ...busy].filter(({ status }) => status !== 200)).toEqual([]);
      expect(sent).toBeGreaterThan(due / 2);
      return tookMs("chat", busy, 0.99) / tookMs("chat", idle, 0.99);
    });
    expect(least).toBeLessThan(aim * slack);
  });

  async function endedAttempts(service: LoadedService): Promise<number> {
    const results = metricLines(await service.metrics(), "uis_webhook_deliveries_total");
    return Object.values(results).reduce((sum, count) => sum + count, 0);
  }

  function tookMs(model: string, answers: readonly Answer[], share: number): number {
    const those = answers.filter((answer) => answer.model === model);
    return quantile(
      those.map((answer) => answer.tookMs),
      share,
    );
  }

  function compared(model: string, idle: readonly Answer[], busy: readonly Answer[]): string {
    const at = (share: number) => [idle, busy].map((each) => tookMs(model, each, share).toFixed(1)).join(" to ");
    return `${model} p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
  }
});

describe("retries of an idle service", () => {
  const retryDelays = ["1s", "1500ms", "2s"];
  const events = 400;
  const perSecond = 10;
  const aimMs = 250;

  it("are never early, and 99 % begin within 250 ms of their due time (WH-26)", {
    timeout: testMs,
  }, async (context) => {
    const service = await start({ models: [quick] }, { retry_delays: retryDelays });
    const sender = await service.sender("a");
    const isLast = ({ headers }: ReceivedRequest) => Number(headers["service-attempt"]) > retryDelays.length;
    const failing = await receiver();
    failing.answerWith((request) => ({ status: isLast(request) ? 200 : 503 }));
    await addEndpoint(sender, urlOf(1, failing.port));
    for (let made = 0; made < events; made += 1) {
      await sender.client.chat("quick");
      await delay(1_000 / perSecond);
    }
    await failing.until(events * (retryDelays.length + 1));
    const calls = new WebhookCalls({ http: service.http, key: sender.key, adminToken: service.adminToken });
    const deliveries = await calls.until(events, ["delivered"]);

    const dueAtMs = new Map<string, number>();
    for (const { id, attempts = [] } of deliveries) {
      for (const { number, nextAttemptAt } of attempts) {
        if (nextAttemptAt !== undefined) dueAtMs.set(`${id} ${number + 1}`, Date.parse(nextAttemptAt));
      }
    }
    const lateMs = failing.requests.flatMap(({ headers, arrivedAtMs }) => {
      const dueMs = dueAtMs.get(`${headers["service-delivery-id"]} ${headers["service-attempt"]}`);
      return dueMs === undefined ? [] : [arrivedAtMs - dueMs];
    });
    const p99Ms = quantile(lateMs, 0.99);
    await context.annotate(
      `${lateMs.length} retries: p50 ${quantile(lateMs, 0.5)} ms, p99 ${p99Ms} ms, max ${Math.max(...lateMs)} ms late`,
    );
    expect(lateMs).toHaveLength(events * retryDelays.length);
    expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0);
    expect(p99Ms).toBeLessThan(aimMs * slack);

    const lateness = metricLines(await service.metrics(), "uis_webhook_lateness_seconds_bucket");
    const all = lateness['{le="+Inf"}'] ?? 0;
    const inTime = lateness[slack === 1 ? '{le="0.25"}' : '{le="2.5"}'] ?? 0;
    expect(all).toBe(events * (retryDelays.length + 1));
    expect(inTime / all).toBeGreaterThanOrEqual(0.99);
  });
});
