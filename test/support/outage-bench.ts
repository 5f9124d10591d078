import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { eventually } from "./eventually.js";
import { ServiceFolder, type ServiceProcess } from "./service-process.js";
import { type Answer, startSteadyLoad } from "./steady-load.js";

/** Durations of the load before, during and after a fault, its requests per second, and their limit per minute. */
export const outageTimes = {
  beforeMs: 5_000,
  awayMs: 10_000,
  afterMs: 8_000,
  perSecond: 100,
  limitedPerSecond: 10,
  limit: 100,
};
const admitMsUsual = 60;
/** Share of admissions that must take at most `admitMsUsual`. */
const usualShare = 0.999;
const admitMsMax = 200;
const backMsMax = 1_000;
/** Maximum duration of a request. */
const answerMsMax = 2_000;
const successMin = 0.999;
/** Maximum excess over a limit during the outage and after the recovery. */
const overMax = 1.1;

const windowMs = 60_000;

const script = { text: "One two three." };
/** Timeout of a test with one fault. */
export const troubleMs = 180_000;

export interface Trouble {
  /** Duration of the fault, if it differs from the default. */
  readonly awayMs?: number;
  begin(): Promise<unknown>;
  /** Resolves when the store is available again. */
  end(): Promise<unknown>;
}

/** Two services over one Redis, and their load. */
export class OutageBench {
  readonly #folders: readonly ServiceFolder[];
  readonly #replicas: readonly ServiceProcess[];
  #answered = { requests: 0, tokens: 0 };

  /** `names`: the names of the faults. Each fault has its own model, whose requests are limited. */
  static async start(redisUrl: string, names: readonly string[]): Promise<OutageBench> {
    const limited = names.map(limitedModel);
    const config = {
      models: ["free", ...limited].map((id) => ({ id, engine: "scripted", scripted: script })),
      rate_limits: {
        models: Object.fromEntries(limited.map((id) => [id, { requests_per_minute: outageTimes.limit }])),
      },
    };
    const env = { REDIS_URL: redisUrl, UIS_MASTER_KEY: randomBytes(32).toString("base64"), LOG_LEVEL: "info" };
    const folders = [await ServiceFolder.create(), await ServiceFolder.create()];
    const bench = new OutageBench(folders, []);
    try {
      const replicas: ServiceProcess[] = [];
      for (const folder of folders) replicas.push(await folder.start(config, { env }));
      return new OutageBench(folders, replicas);
    } catch (error) {
      await bench.remove();
      throw error;
    }
  }

  private constructor(folders: readonly ServiceFolder[], replicas: readonly ServiceProcess[]) {
    this.#folders = folders;
    this.#replicas = replicas;
  }

  /** Runs a steady load before, during and after the fault, and checks all guarantees. */
  async survive(name: string, trouble: Trouble): Promise<void> {
    const startedAtMs = performance.now();
    const all = this.#replicas;
    const key = this.#key;
    const rates = { free: outageTimes.perSecond, [limitedModel(name)]: outageTimes.limitedPerSecond };
    const linesBefore = all.map((replica) => replica.logs().length);
    const load = startSteadyLoad({ services: all.map(({ http }) => http), key, rates });
    await delay(outageTimes.beforeMs);
    await trouble.begin();
    const awayAtMs = performance.now();
    await delay(trouble.awayMs ?? outageTimes.awayMs);
    await trouble.end();
    const backAtMs = performance.now();
    await delay(outageTimes.afterMs);
    const answers = await load.end();
    const ranMs = performance.now() - startedAtMs;
    for (const { status, tokens } of answers) {
      if (status === 200) this.#answered.requests += 1;
      this.#answered.tokens += tokens;
    }
    await eventually(async () => !(await hasSpooled(all)), "the spools are empty", 20_000);
    const lines = all.flatMap((replica, place) => replica.logs().slice(linesBefore[place]));
    const requests = lines.filter(({ msg }) => msg === "request");
    const changes = lines.filter(({ msg }) => msg.includes("applies limits")).length;
    const figures = figuresOf(answers, { awayAtMs, backAtMs, limited: limitedModel(name) });
    const admitMs = requests.map(({ admit_ms }) => Number(admit_ms)).sort((a, b) => a - b);
    const admission = { usualMs: percentile(admitMs, usualShare), maxMs: admitMs.at(-1) ?? 0 };
    const backAt = performance.timeOrigin + backAtMs;
    const slow = requests
      .filter(({ admit_ms }) => Number(admit_ms) > 60)
      .map(({ admit_ms, time }) => ({ admitMs: admit_ms, endedAfterReturnMs: Date.parse(String(time)) - backAt }));
    keepFigures(`redis-outage-${name}`, { ...figures, admission, changes, slow: slow.slice(0, 50) });

    expect(figures.success, figures.failures.join()).toBeGreaterThanOrEqual(successMin);
    expect(figures.degraded, "decided without the store").toBeGreaterThan(0);
    expect(await this.#usage()).toEqual(this.#answered);
    expect(figures.admitted).toBeLessThanOrEqual(outageTimes.limit * overMax);
    expect(figures.admitted).toBeGreaterThanOrEqual(outageTimes.limit / 2);
    // Two lines per service: one when the store is unavailable, one when it has been available again for a second.
    expect(changes, "lines of the log").toBeGreaterThan(0);
    expect(changes, "lines of the log").toBeLessThanOrEqual(2 * all.length * (1 + ranMs / 1_000));
    expect(figures.backMs).toBeLessThan(backMsMax);
    expect(figures.slowestMs).toBeLessThan(answerMsMax);
    expect(admission.usualMs).toBeLessThan(admitMsUsual);
    expect(admission.maxMs).toBeLessThan(admitMsMax);
  }

  async remove(): Promise<void> {
    for (const folder of this.#folders) await folder.remove();
  }

  /** Secret of the key that the first service created at its start. */
  get #key(): string {
    return this.#replicas.map(({ key }) => key).find((key) => key !== "") ?? "";
  }

  async #usage(): Promise<{ requests: number; tokens: number }> {
    const all = this.#replicas;
    const key = this.#key;
    const answer = await fetch(`${all[0]?.http}/v1/usage?limit=1`, { headers: { authorization: `Bearer ${key}` } });
    const page = (await answer.json()) as { data: { results: UsageResult[] }[] };
    const sum = { requests: 0, tokens: 0 };
    for (const { num_model_requests, input_tokens, output_tokens } of page.data[0]?.results ?? []) {
      sum.requests += num_model_requests;
      sum.tokens += input_tokens + output_tokens;
    }
    return sum;
  }
}

interface UsageResult {
  readonly num_model_requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

function limitedModel(trouble: string): string {
  return `limited-${trouble}`;
}

function figuresOf(
  answers: readonly Answer[],
  { awayAtMs, backAtMs, limited }: { awayAtMs: number; backAtMs: number; limited: string },
) {
  const free = answers.filter(({ model }) => model !== limited);
  const failed = free.filter(({ status }) => status !== 200);
  const degraded = answers.filter(({ isDegraded, sentAtMs }) => isDegraded && sentAtMs >= awayAtMs);
  return {
    requests: answers.length,
    success: 1 - failed.length / free.length,
    failures: [...new Set(failed.map(({ status, failure }) => `${status} ${failure}`))],
    degraded: degraded.length,
    slowestMs: Math.max(...answers.map(({ tookMs }) => tookMs)),
    /** Time from the store's recovery until each service has sent a request to the store again. */
    backMs:
      Math.max(...firstByService(answers.filter((answer) => answer.sentAtMs >= backAtMs && isOfStore(answer)))) -
      backAtMs,
    /** Requests decided without the store although it had been available again for `backMsMax`. */
    degradedLater: degraded.filter(({ sentAtMs }) => sentAtMs > backAtMs + backMsMax).length,
    /** Maximum number of limited requests that were admitted in any window. */
    admitted: mostInWindow(
      answers.flatMap(({ model, status, sentAtMs }) =>
        model === limited && status === 200 ? [[sentAtMs, 1] as const] : [],
      ),
    ),
  };
}

function isOfStore({ status, isDegraded }: Answer): boolean {
  return !isDegraded && (status === 200 || status === 429);
}

/** For each service, the time at which the first of these requests was sent; infinite without one. */
function firstByService(answers: readonly Answer[]): readonly number[] {
  const first = new Map<number, number>();
  for (const { service, sentAtMs } of answers) {
    first.set(service, Math.min(first.get(service) ?? Number.POSITIVE_INFINITY, sentAtMs));
  }
  return [0, 1].map((service) => first.get(service) ?? Number.POSITIVE_INFINITY);
}

/** The largest sum of weights in any window of a minute, given times and weights. */
export function mostInWindow(weighed: readonly (readonly [atMs: number, weight: number])[]): number {
  const sorted = weighed.toSorted(([a], [b]) => a - b);
  let [most, sum, first] = [0, 0, 0];
  for (const [atMs, weight] of sorted) {
    sum += weight;
    for (let oldest = sorted[first]; oldest !== undefined && oldest[0] <= atMs - windowMs; oldest = sorted[first]) {
      sum -= oldest[1];
      first += 1;
    }
    most = Math.max(most, sum);
  }
  return most;
}

/** Whether settlements of a service wait in files for the store. */
export async function hasSpooled(services: readonly ServiceProcess[]): Promise<boolean> {
  const spools = services.map(({ line }) => readdir(join(line.data_dir, "spool")));
  return (await Promise.all(spools)).some((files) => files.length > 0);
}

/** Writes figures of a run to `test-results/figures/NAME.json`. */
export function keepFigures(name: string, figures: object): void {
  mkdirSync("test-results/figures", { recursive: true });
  writeFileSync(`test-results/figures/${name}.json`, `${JSON.stringify(figures, null, 2)}\n`);
}

/** The value below or at which this share (0 to 1) of the numbers is. 0 without numbers. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
}
