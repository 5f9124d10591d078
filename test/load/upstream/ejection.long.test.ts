import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { metricLines } from "../../support/metrics-text.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { type Answer, startSteadyLoad } from "../../support/steady-load.js";
import { UpstreamProcess } from "../../support/upstream/upstream-process.js";

const key = "key-of-this-test";
const perSecond = 100;
const warmMs = 5_000;
const faultMs = 60_000;
const recoveryMs = 18_000;
const sampleMs = 250;
/** Time limits of the service. They are short, because requests to a suspended server wait for the whole first-byte limit. */
const firstByteMs = 2_000;

let served: ServiceFolder;
let upstreams: UpstreamProcess[];
let service: ServiceProcess;

beforeEach(async () => {
  served = await ServiceFolder.create();
  upstreams = await Promise.all([1, 2, 3].map(() => UpstreamProcess.start()));
  const settings = { kind: "generic", connect: "1s", first_byte: `${firstByteMs}ms`, discover: "off" };
  service = await served.start(
    {
      state: { durability: "none" },
      upstreams: Object.fromEntries(upstreams.map(({ url }, at) => [`u${at}`, { url, ...settings }])),
      models: [{ id: "m", deployments: upstreams.map((_, at) => ({ engine: "openai", upstream: `u${at}` })) }],
    },
    { env: { UIS_BOOTSTRAP_API_KEY: key } },
  );
});
afterEach(async () => {
  await served.remove();
  for (const upstream of upstreams) await upstream.close();
});

/** Number of attempts at the first deployment and at all deployments, at a time of `performance.now()`. */
interface Sample {
  readonly atMs: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly attempts: number;
}

async function takeSample(): Promise<Sample> {
  const page = await (await fetch(`${service.ops}/metrics`)).text();
  const sample = { succeeded: 0, failed: 0, attempts: 0 };
  for (const [labels, count] of Object.entries(metricLines(page, "uis_upstream_requests_total"))) {
    sample.attempts += count;
    if (!labels.includes('deployment="u0/')) continue;
    if (labels.includes('outcome="success"')) sample.succeeded += count;
    else if (!labels.includes('outcome="cancelled"')) sample.failed += count;
  }
  return { atMs: performance.now(), ...sample };
}

/** Takes samples until `end` is called. */
function startSamples(): { end(): Promise<readonly Sample[]> } {
  const samples: Sample[] = [];
  let isOver = false;
  const taking = (async () => {
    while (!isOver) {
      samples.push(await takeSample());
      await delay(sampleMs);
    }
  })();
  return {
    async end() {
      isOver = true;
      await taking;
      return samples;
    },
  };
}

const before = (samples: readonly Sample[], atMs: number): Sample => {
  const found = samples.findLast((sample) => sample.atMs <= atMs) ?? samples[0];
  if (found === undefined) throw new Error("there is no sample");
  return found;
};

/** Time after `fromMs` at which the first deployment answers at least `least` requests a second again. */
function returnedAfterMs(samples: readonly Sample[], fromMs: number, least: number): number {
  for (const sample of samples) {
    if (sample.atMs < fromMs + 1_000) continue;
    const earlier = before(samples, Math.max(fromMs, sample.atMs - 1_000));
    if (sample.succeeded - earlier.succeeded >= least) return sample.atMs - fromMs;
  }
  return Number.POSITIVE_INFINITY;
}

interface Fault {
  readonly name: string;
  readonly begin: (upstream: UpstreamProcess) => Promise<void> | void;
  readonly end: (upstream: UpstreamProcess) => Promise<void> | void;
  /** Time until the first failure is visible. */
  readonly showsAfterMs?: number;
}

const works = (upstream: UpstreamProcess) => upstream.behave("works");
const faults: readonly Fault[] = [
  { name: "killed", begin: (upstream) => upstream.kill(), end: (upstream) => upstream.revive() },
  {
    name: "hung",
    begin: (upstream) => upstream.freeze(),
    end: (upstream) => upstream.thaw(),
    showsAfterMs: firstByteMs,
  },
  { name: "slowed to 10 %", begin: (upstream) => upstream.behave("slow"), end: works },
  { name: "answering 500", begin: (upstream) => upstream.behave("500"), end: works },
  { name: "answering 429 with Retry-After", begin: (upstream) => upstream.behave("429"), end: works },
  { name: "answering 401", begin: (upstream) => upstream.behave("401"), end: works },
];

const quantile = (sorted: readonly number[], share: number): number =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);

describe("one of three upstreams in separate processes, at 100 requests per second", { timeout: 300_000 }, () => {
  it.each(faults)(
    "$name: clients see no failure, it gets no requests after 2 s, and is used again within 15 s after the fault (REL-8, REL-9)",
    async ({ name, begin, end, showsAfterMs = 0 }) => {
      const [bad] = upstreams;
      if (bad === undefined) throw new Error("there is no upstream");
      const load = startSteadyLoad({ services: [service.http], key, rates: { m: perSecond } });
      const sampling = startSamples();
      await delay(warmMs);
      const failedAtMs = performance.now();
      await begin(bad);
      await delay(faultMs);
      await end(bad);
      const revivedAtMs = performance.now();
      await delay(recoveryMs);
      const answers = await load.end();
      const samples = await sampling.end();

      const failures = answers.filter(({ status }) => status !== 200);
      const during = answers.filter(({ sentAtMs }) => sentAtMs >= failedAtMs && sentAtMs < revivedAtMs);
      const took = during.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
      const [first, shown, revived] = [failedAtMs, failedAtMs + showsAfterMs + 2_000, revivedAtMs].map((atMs) =>
        before(samples, atMs),
      );
      const last = samples.at(-1);
      if (first === undefined || shown === undefined || revived === undefined || last === undefined) {
        throw new Error("there are no samples");
      }
      const figures = {
        requests: answers.length,
        failures: failures.length,
        reasons: [...new Set(failures.map(({ status, failure }) => `${status} ${failure.slice(0, 80)}`))],
        p50Ms: quantile(took, 0.5),
        p99Ms: quantile(took, 0.99),
        maxMs: quantile(took, 1),
        failedTriesAtOnce: shown.failed - first.failed,
        failedTriesLater: revived.failed - shown.failed,
        upstreamLoad: Number((last.attempts / answers.length).toFixed(3)),
        firstAnswerAfterMs: Math.round(returnedAfterMs(samples, revivedAtMs, 1)),
        halfOfShareAfterMs: Math.round(returnedAfterMs(samples, revivedAtMs, perSecond / 3 / 2)),
      };
      process.stdout.write(`${name}: ${JSON.stringify(figures)}\n`);

      expect(figures.requests).toBeGreaterThan(0.9 * perSecond * ((warmMs + faultMs + recoveryMs) / 1_000));
      expect(failures.length / answers.length).toBeLessThan(0.001);
      expect(failures.filter((answer: Answer) => answer.sentAtMs > failedAtMs + showsAfterMs + 2_000)).toEqual([]);
      // The attempts that fail later are probes.
      expect(figures.failedTriesLater / during.length).toBeLessThan(0.01);
      expect(figures.upstreamLoad).toBeLessThanOrEqual(1.25);
      expect(figures.firstAnswerAfterMs).toBeLessThan(15_000);
    },
  );
});

describe("when all upstreams in separate processes fail", { timeout: 120_000 }, () => {
  it("requests are still sent, and are answered within 15 s after the upstreams recover (REL-9)", async () => {
    const load = startSteadyLoad({ services: [service.http], key, rates: { m: perSecond } });
    await delay(5_000);
    for (const upstream of upstreams) await upstream.behave("500");
    await delay(10_000);
    const tries: number[] = [];
    for (let second = 0; second < 20; second++) {
      const { attempts } = await takeSample();
      await delay(1_000);
      tries.push((await takeSample()).attempts - attempts);
    }
    for (const upstream of upstreams) await upstream.behave("works");
    const revivedAtMs = performance.now();
    await delay(25_000);
    const answers = await load.end();
    const firstAnswered = answers.find(({ sentAtMs, status }) => sentAtMs > revivedAtMs && status === 200);
    const firstAnswerAfterMs = Math.round((firstAnswered?.sentAtMs ?? Number.POSITIVE_INFINITY) - revivedAtMs);
    const last = answers.filter(({ sentAtMs }) => sentAtMs > revivedAtMs + 15_000);
    const figures = { requests: answers.length, triesInEachSecond: tries, firstAnswerAfterMs };
    process.stdout.write(`all failing: ${JSON.stringify(figures)}\n`);
    expect(Math.min(...tries)).toBeGreaterThan(perSecond / 2);
    expect(firstAnswerAfterMs).toBeLessThan(15_000);
    expect(last.every(({ status }) => status === 200)).toBe(true);
  });
});
