import { randomBytes } from "node:crypto";
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { eventually } from "../../support/eventually.js";
import { hasSpooled, keepFigures, mostInWindow, percentile } from "../../support/outage-bench.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { type Answer, startSteadyLoad } from "../../support/steady-load.js";

/** Requests per second of each account. */
const rates = { unary: 12, streamed: 6, limited: 4, metered: 4 };
/** Limits per minute of each account: of requests, and of tokens. */
const requestsMax = 120;
const tokensMax = 480;
const beforeMs = 5_000;
const afterMs = 30_000;

const successMin = 0.999;
/**
 * Maximum factor of a limit that is admitted in any window, while limits are decided without a node and after it recovers
 * (REL-15).
 */
const overMax = 1.1;
/** Maximum duration of a request, which shows that no request hangs. */
const answerMsMax = 2_000;
const admitMsUsual = 60;
const admitMsMax = 200;
const usualShare = 0.999;

const adminToken = `adm_${"0123456789".repeat(4)}`;
const script = { text: "One two three." };
/** Maximum number of tokens of a request, which is the number that the answer has. */
const maxTokens = 3;

interface Account {
  readonly name: string;
  readonly key: string;
  answered: { requests: number; tokens: number };
}

interface AccountAnswer extends Answer {
  readonly account: Account;
}

/** A fault of the cluster, and how it ends. */
export interface ClusterTrouble {
  begin(): unknown;
  readonly awayMs: number;
  /** Length of the time whose admissions the new primary lacks; default: 0. */
  readonly forgottenMs?: number;
  end(): unknown;
}

/** Two services on one cluster with a receiver of their webhooks, and the load of several accounts. */
export class ClusterLoad {
  readonly #folders: readonly ServiceFolder[];
  readonly #services: readonly ServiceProcess[];
  readonly #receiver: Receiver;
  readonly #accounts: readonly Account[];

  /** Starts the services. `troubles`: names of the faults. Each has separate models with a limit of requests. */
  static async start(redisUrl: string, accounts: readonly string[], troubles: readonly string[]): Promise<ClusterLoad> {
    const limits = Object.fromEntries(
      troubles.flatMap((trouble) => [
        [`limited-${trouble}`, { requests_per_minute: requestsMax }],
        [`metered-${trouble}`, { tokens_per_minute: tokensMax }],
      ]),
    );
    const config = {
      models: ["free", ...Object.keys(limits)].map((id) => ({ id, engine: "scripted", scripted: script })),
      rate_limits: { models: limits },
      webhooks: { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] },
    };
    const env = {
      REDIS_URL: redisUrl,
      UIS_MASTER_KEY: randomBytes(32).toString("base64"),
      UIS_ADMIN_TOKEN: adminToken,
      LOG_LEVEL: "info",
    };
    const folders = [await ServiceFolder.create(), await ServiceFolder.create()];
    const services: ServiceProcess[] = [];
    for (const folder of folders) services.push(await folder.start(config, { env }));
    const receiver = await startReceiver();
    return new ClusterLoad(folders, services, receiver, await newAccounts(services, accounts, receiver.url));
  }

  private constructor(
    folders: readonly ServiceFolder[],
    services: readonly ServiceProcess[],
    receiver: Receiver,
    accounts: readonly Account[],
  ) {
    this.#folders = folders;
    this.#services = services;
    this.#receiver = receiver;
    this.#accounts = accounts;
  }

  /** Runs the load before, during and after the fault, and checks all guarantees. */
  async survive(name: string, trouble: ClusterTrouble): Promise<void> {
    // Time limits are longer if other work on this machine delays the services.
    const slack = (loadavg()[0] ?? 0) < availableParallelism() ? 1 : 5;
    const linesBefore = this.#services.map((service) => service.logs().length);
    const end = this.#send(name);
    await delay(beforeMs);
    await trouble.begin();
    const awayAtMs = performance.now();
    await delay(trouble.awayMs);
    await trouble.end();
    const backAtMs = performance.now();
    await delay(afterMs);
    const answers = await end();
    for (const { account, status, tokens } of answers) {
      if (status === 200) account.answered.requests += 1;
      account.answered.tokens += tokens;
    }
    await eventually(async () => !(await hasSpooled(this.#services)), "the spools are empty", 20_000);
    const completed = answers.filter(({ status }) => status === 200).map(({ requestId }) => requestId);
    const missing = () => {
      const delivered = eventsByRequest(this.#receiver);
      return completed.filter((id) => !delivered.has(id));
    };
    await eventually(() => missing().length === 0, "every event is delivered", 60_000).catch(() => {});

    const lines = this.#services.flatMap((service, place) => service.logs().slice(linesBefore[place]));
    const admitMs = lines.flatMap(({ msg, admit_ms }) => (msg === "request" ? [Number(admit_ms)] : []));
    admitMs.sort((a, b) => a - b);
    const failed = answers.filter(({ model, status }) => status !== 200 && (status !== 429 || model === "free"));
    const ids = [...eventsByRequest(this.#receiver).values()];
    const figures = {
      requests: answers.length,
      slack,
      perSecond: Math.round(answers.length / ((beforeMs + trouble.awayMs + afterMs) / 1_000)),
      success: 1 - failed.length / answers.length,
      failures: [...new Set(failed.map(({ status, failure }) => `${status} ${failure}`))],
      refused: answers.filter(({ status }) => status === 429).length,
      degraded: answers.filter(({ isDegraded }) => isDegraded).length,
      degradedLater: answers.filter(({ isDegraded, sentAtMs }) => isDegraded && sentAtMs > backAtMs + 1_000).length,
      degradedForMs: Math.max(0, ...answers.filter((a) => a.isDegraded).map((a) => a.sentAtMs)) - awayAtMs,
      slowestMs: Math.max(...answers.map(({ tookMs }) => tookMs)),
      over250Ms: answers.filter(({ tookMs }) => tookMs > 250).length,
      admission: { usualMs: percentile(admitMs, usualShare), maxMs: admitMs.at(-1) ?? 0 },
      mostRequests: this.#mostOf(answers, `limited-${name}`, () => 1) / requestsMax,
      mostTokens: this.#mostOf(answers, `metered-${name}`, ({ tokens }) => tokens) / tokensMax,
      missingEvents: missing().length,
      requestsWithTwoEvents: ids.filter((each) => each.size > 1).length,
      usage: await this.#usageOfAll(),
    };
    keepFigures(`redis-cluster-${name}`, figures);

    expect(figures.success, figures.failures.join()).toBeGreaterThanOrEqual(successMin);
    expect(figures.degraded, "decided without the store").toBeGreaterThan(0);
    expect(figures.usage.stored).toEqual(figures.usage.answered);
    expect({ missing: figures.missingEvents, twice: figures.requestsWithTwoEvents }).toEqual({ missing: 0, twice: 0 });
    const forgotten = (rates.limited * (trouble.forgottenMs ?? 0)) / 1_000 / requestsMax;
    for (const most of [figures.mostRequests, figures.mostTokens]) {
      expect(most).toBeLessThanOrEqual(overMax + forgotten);
      // If less were admitted, the load would be too low to test the limit.
      expect(most).toBeGreaterThan(0.8);
    }
    expect(figures.slowestMs).toBeLessThan(answerMsMax * slack);
    expect(figures.admission.usualMs).toBeLessThan(admitMsUsual * slack);
    expect(figures.admission.maxMs).toBeLessThan(admitMsMax * slack);
  }

  async remove(): Promise<void> {
    for (const folder of this.#folders) await folder.remove();
    await this.#receiver.close();
  }

  /** Starts the load of all accounts; returns a function that ends it. */
  #send(name: string): () => Promise<readonly AccountAnswer[]> {
    const services = this.#services.map(({ http }) => http);
    const { unary, streamed, limited, metered } = rates;
    const loads = this.#accounts.map((account) => {
      const all = { free: unary, [`limited-${name}`]: limited, [`metered-${name}`]: metered };
      const parts = [
        startSteadyLoad({ services, key: account.key, rates: all, maxTokens }),
        startSteadyLoad({ services, key: account.key, rates: { free: streamed }, isStreamed: true, maxTokens }),
      ];
      return { account, parts };
    });
    return async () => {
      const answers = loads.map(async ({ account, parts }) => {
        const ended = await Promise.all(parts.map((part) => part.end()));
        return ended.flat().map((answer): AccountAnswer => ({ ...answer, account }));
      });
      return (await Promise.all(answers)).flat();
    };
  }

  /** Maximum that was admitted for an account in any window. */
  #mostOf(answers: readonly AccountAnswer[], model: string, weigh: (answer: Answer) => number): number {
    const admitted = answers.filter((answer) => answer.model === model && answer.status === 200);
    const of = (account: Account) =>
      mostInWindow(admitted.filter((answer) => answer.account === account).map((a) => [a.sentAtMs, weigh(a)]));
    return Math.max(...this.#accounts.map(of));
  }

  async #usageOfAll() {
    const stored: Record<string, Account["answered"]> = {};
    const answered: Record<string, Account["answered"]> = {};
    for (const { name, key, answered: told } of this.#accounts) {
      answered[name] = { ...told };
      stored[name] = await usageOf(new ServiceClient(this.#services[0]?.http ?? "", key));
    }
    return { stored, answered };
  }
}

async function newAccounts(services: readonly ServiceProcess[], names: readonly string[], hook: string) {
  const http = services[0]?.http ?? "";
  const admin = new ServiceClient(http, adminToken);
  const accounts: Account[] = [];
  for (const name of names) {
    const wanted = { name, account: name, scope: "SCOPE_READ_WRITE" };
    const made = await admin.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", wanted);
    if (made.status !== 200) throw new Error(`no key was created: ${made.text}`);
    const key = String(made.json["secret"]);
    const added = await new ServiceClient(http, key).post("/v1/webhooks", { url: hook, events: ["request.completed"] });
    if (added.status !== 200) throw new Error(`no endpoint was created: ${added.text}`);
    // Each service caches the key by this request.
    for (const service of services) await new ServiceClient(service.http, key).get("/v1/models");
    accounts.push({ name, key, answered: { requests: 0, tokens: 0 } });
  }
  return accounts;
}

interface UsageResult {
  readonly num_model_requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

async function usageOf(client: ServiceClient): Promise<Account["answered"]> {
  const { json } = await client.get("/v1/usage?limit=1");
  const sum = { requests: 0, tokens: 0 };
  const [day] = json["data"] as readonly { readonly results: readonly UsageResult[] }[];
  for (const { num_model_requests, input_tokens, output_tokens } of day?.results ?? []) {
    sum.requests += num_model_requests;
    sum.tokens += input_tokens + output_tokens;
  }
  return sum;
}

/** Ids of the delivered events of each request. */
function eventsByRequest(receiver: Receiver): ReadonlyMap<string, ReadonlySet<string>> {
  const ids = new Map<string, Set<string>>();
  for (const { rawBody } of receiver.requests) {
    const { id, data } = JSON.parse(rawBody.toString()) as { id: string; data: { request_id: string } };
    const known = ids.get(data.request_id) ?? new Set<string>();
    ids.set(data.request_id, known.add(id));
  }
  return ids;
}
