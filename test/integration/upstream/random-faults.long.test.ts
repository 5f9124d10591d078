import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { failingAnswers } from "../../support/upstream/failing-answers.js";
import { type RawAnswer, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { done, finish, text } from "../../support/upstream/test-upstream.js";

const soakMs = 60_000;
const perSecond = 80;
/** Share of the requests before which an upstream changes how it answers, and of the clients that leave. */
const changeShare = 0.02;
const leavingShare = 0.15;
const queueWaitMs = 3_000;
const limitMs = 1_000;
/** Maximum time of a request: three waits for a slot and three attempts, times five for a busy machine. */
const longestMs = 5 * 3 * (queueWaitMs + limitMs);
const usage = { prompt_tokens: 5, completion_tokens: 2 };

type Mode = "works" | "fails" | "hangs" | "breaks";
const modes: readonly Mode[] = ["works", "fails", "hangs", "breaks"];

const oneOf = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T;

/** Answers within 100 ms: as a whole, with a failure before any content, with half an answer, or never. */
const answerOf: Readonly<Record<Mode, RawAnswer>> = {
  works: (socket) => {
    socket.write(streamHead + text("one"));
    setTimeout(() => socket.end(text(" two") + finish + sse({ choices: [], usage }) + done), 100 * Math.random());
  },
  fails: (socket) => {
    const { before, fail } = oneOf(failingAnswers);
    if (before !== undefined) socket.write(before);
    setTimeout(() => fail(socket), 100 * Math.random());
  },
  hangs: () => {},
  breaks: (socket) => {
    socket.write(streamHead + text("one"));
    setTimeout(() => socket.resetAndDestroy(), 100 * Math.random());
  },
};

let current: Mode[];
let upstreams: RawUpstream[];
let service: RunningService;

beforeEach(async () => {
  current = ["works", "works", "works"];
  upstreams = await Promise.all(
    current.map((_, at) => RawUpstream.start((socket, request) => answerOf[current[at] ?? "works"](socket, request))),
  );
  const limits = { kind: "azure", first_byte: `${limitMs}ms`, idle: `${limitMs}ms` };
  service = await startService({
    config: {
      limits: { queue_wait: `${queueWaitMs}ms` },
      upstreams: Object.fromEntries(upstreams.map(({ url }, at) => [`u${at}`, { url, ...limits }])),
      models: [
        {
          id: "m",
          affinity: "prefix",
          deployments: upstreams.map((_, at) => ({ engine: "openai", upstream: `u${at}`, slots: 4, queue_max: 50 })),
        },
      ],
    },
  });
});
afterEach(async () => {
  await service.close();
  for (const upstream of upstreams) await upstream.close();
});

/** Resolves with the outcome of a request that is streamed or not; some clients leave before it ends. */
async function ask(): Promise<{ readonly outcome: string; readonly tookMs: number }> {
  const sentAtMs = performance.now();
  const leave = new AbortController();
  if (Math.random() < leavingShare) setTimeout(() => leave.abort(), 300 * Math.random());
  const ended = (outcome: string) => ({ outcome, tookMs: performance.now() - sentAtMs });
  try {
    const response = await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "m",
        stream: Math.random() < 0.5,
        n: Math.random() < 0.1 ? 2 : 1,
        messages: [{ role: "user", content: `Question ${Math.floor(30 * Math.random())}` }],
      }),
      signal: leave.signal,
    });
    const body = await response.text();
    return ended(/"code":"([^"]*)"/.exec(body)?.[1] ?? String(response.status));
  } catch (error) {
    if (leave.signal.aborted) return ended("left");
    throw error;
  }
}

it("upstreams that fail at random leave no request, slot, token or lease behind (REL-6, REL-8)", {
  timeout: 300_000,
}, async () => {
  const asked: ReturnType<typeof ask>[] = [];
  for (const endMs = performance.now() + soakMs; performance.now() < endMs; ) {
    if (Math.random() < changeShare) current[Math.floor(3 * Math.random())] = oneOf(modes);
    asked.push(ask());
    await delay(1_000 / perSecond);
  }
  const answers = await Promise.all(asked);
  const outcomes: Record<string, number> = {};
  for (const { outcome } of answers) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  process.stdout.write(`outcomes: ${JSON.stringify(outcomes)}\n`);

  // Every request ends, with its answer, an error of the table, or because its client left.
  const known = ["200", "left", "upstream_error", "upstream_timeout", "upstream_unauthorized", "upstream_rate_limited"];
  expect(Object.keys(outcomes).filter((outcome) => ![...known, "server_is_overloaded"].includes(outcome))).toEqual([]);
  expect(outcomes["200"]).toBeGreaterThan(0.05 * answers.length);
  expect(Math.max(...answers.map(({ tookMs }) => tookMs))).toBeLessThan(longestMs);

  await eventually(async () => {
    const { requests, live_leases: leases, timers, streams } = await service.debugState();
    return requests.running + requests.waiting + leases + timers + streams === 0;
  }, "a service at rest");
  // There is one log line for each request; a request whose client left immediately may never have arrived.
  // The service writes its log in batches.
  const logged = () => service.logs.filter(({ msg }) => msg === "request").map((line) => line["request_id"]);
  const answered = answers.length - (outcomes["left"] ?? 0);
  await eventually(() => logged().length >= answered, "a log line for each answered request");
  const ids = logged();
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeLessThanOrEqual(answers.length);
  const { deployments, models } = await service.debugState();
  expect(deployments.map((each) => [each.outstanding_requests, each.outstanding_tokens])).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ]);
  expect(models.map(({ busy, waiting }) => busy + waiting)).toEqual([0]);
  expect(service.logs.filter(({ level }) => level === "error")).toEqual([]);

  for (const at of current.keys()) current[at] = "works";
  await eventually(async () => (await ask()).outcome === "200", "an answer of upstreams that work");
});
