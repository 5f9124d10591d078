import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier, rounds } from "../../support/tier.js";
import { expectQuick, type Figures, figuresOf, writeFigures } from "./latencies.js";
import { allWays, type Kind, messagesWay, type Sent, type Way } from "./ways.js";

const wayNames = ["REST", "Messages", "Connect", "gRPC-Web", "gRPC"] as const;

interface Stage {
  readonly name: string;
  readonly model: string;
  readonly kind: Kind;
}

/** The stage of a request at which its client disconnects, and the setup that leads there. */
const stages: readonly Stage[] = [
  { name: "in the queue", model: "busy", kind: "stream" },
  { name: "before the first token", model: "slow-start", kind: "stream" },
  { name: "in mid-stream", model: "endless", kind: "stream" },
  { name: "in a non-streamed answer", model: "hanging", kind: "unary" },
  { name: "in embeddings", model: "slow-embed", kind: "embeddings" },
  { name: "in a ranking", model: "slow-rerank", kind: "rerank" },
];
/** Stages of requests for operations that only REST has. */
const restStages: readonly Stage[] = [
  { name: "in the queue of a response", model: "busy", kind: "response" },
  { name: "in a streamed response", model: "endless", kind: "streamed response" },
  { name: "in a non-streamed response", model: "hanging", kind: "response" },
];

const forever = "1h";
const models = [
  { id: "busy", engine: "scripted", slots: 1, scripted: { hang_after_tokens: 0 } },
  { id: "slow-start", engine: "scripted", slots: 8, scripted: { text: "Late.", first_token_delay_ms: 3_600_000 } },
  {
    id: "endless",
    engine: "scripted",
    slots: 8,
    context_length: 1_000_000,
    scripted: { tokens: 900_000, token_delay_ms: 2, context_length: 1_000_000 },
  },
  { id: "hanging", engine: "scripted", slots: 8, scripted: { text: "one two three four", hang_after_tokens: 3 } },
  { id: "slow-rerank", engine: "scripted", slots: 8, scripted: { rerank: true, first_token_delay_ms: 3_600_000 } },
  { id: "slow-embed", engine: "scripted", slots: 8, scripted: { dimensions: 8, first_token_delay_ms: 3_600_000 } },
];

let service: RunningService;
let ways: ReadonlyMap<string, Way>;
const figures: Record<string, Figures> = {};

beforeAll(async () => {
  service = await startService({
    config: { models, limits: { deadline: forever, queue_wait: forever, commit: "20ms" } },
  });
});

// Separate connections for each test: Node 24 closes a connection with more than a thousand resets as an attack.
beforeEach(() => {
  ways = new Map([...allWays(service), messagesWay(service)].map((way) => [way.name, way]));
});

afterAll(async () => {
  writeFigures(figures);
  await service.close();
});

const wayOf = (name: string): Way => {
  const way = ways.get(name);
  if (way === undefined) throw new Error(`no way ${name}`);
  return way;
};

async function modelState(id: string) {
  const model = (await service.debugState()).models.find((state) => state.id === id);
  if (model === undefined) throw new Error(`no model ${id}`);
  return model;
}

/** Sends a request and waits until it has reached its stage. */
async function reach(stage: Stage, sent: Sent, producedBefore: number): Promise<void> {
  switch (stage.name) {
    case "in the queue":
    case "in the queue of a response":
      return eventually(async () => (await modelState(stage.model)).waiting === 1);
    case "in mid-stream":
    case "in a streamed response":
      return sent.firstItem;
    case "in a non-streamed answer":
    case "in a non-streamed response":
      return eventually(async () => (await modelState(stage.model)).produced_tokens === producedBefore + 3);
    default:
      return eventually(async () => (await modelState(stage.model)).busy === 1);
  }
}

/** Cancels one request at its stage; returns the time until its engine or queue slot was free. */
async function leaveOnce(way: Way, stage: Stage): Promise<number> {
  const before = await modelState(stage.model);
  const sent = way.send({ model: stage.model, kind: stage.kind });
  await reach(stage, sent, before.produced_tokens);
  const leftMs = performance.now();
  sent.leave();
  await eventually(async () => {
    const { busy, waiting } = await modelState(stage.model);
    return busy === before.busy && waiting === before.waiting;
  }, "the end of the engine's work");
  const latencyMs = performance.now() - leftMs;
  await sent.over;
  return latencyMs;
}

const ended = (outcome: string) =>
  service.logs.filter((line) => line["msg"] === "request" && line["outcome"] === outcome);

async function expectAtRest(): Promise<void> {
  await eventually(async () => {
    const { requests, streams, timers, live_leases: leases } = await service.debugState();
    return requests.running === 0 && requests.waiting === 0 && streams === 0 && timers === 0 && leases === 0;
  }, "the service at rest");
}

function stagesOf(name: (typeof wayNames)[number]): readonly Stage[] {
  if (name === "REST") return [...stages, ...restStages];
  if (name !== "Messages") return stages;
  const kinds: readonly Kind[] = ["stream", "unary"];
  return stages.filter((stage) => byTier({ ci: stage.name === "in mid-stream", long: kinds.includes(stage.kind) }));
}

describe.each(wayNames)("a client that disconnects over %s", (name) => {
  it.each(stagesOf(name))(
    "cancels the work immediately, and the produced tokens are charged: $name (REL-2, SSE-14, RETRY-6)",
    { timeout: 600_000 },
    async (stage) => {
      const way = wayOf(name);
      const blocker = stage.model === "busy" ? way.send({ model: stage.model, kind: stage.kind }) : null;
      if (blocker !== null) await eventually(async () => (await modelState(stage.model)).busy === 1);
      const producedBefore = (await modelState(stage.model)).produced_tokens;
      const leftBefore = ended("client_left").length;

      const latenciesMs: number[] = [];
      for (let i = 0; i < rounds(1_000); i++) latenciesMs.push(await leaveOnce(way, stage));
      figures[`${name} ${stage.name}`] = figuresOf(latenciesMs);
      expectQuick(figuresOf(latenciesMs));

      blocker?.leave();
      await blocker?.over;
      await expectAtRest();
      const left = ended("client_left").slice(leftBefore);
      expect(left).toHaveLength(latenciesMs.length + (blocker === null ? 0 : 1));
      const counted = left.reduce((sum, line) => sum + Number(line["completion_tokens"] ?? 0), 0);
      expect(counted).toBe((await modelState(stage.model)).produced_tokens - producedBefore);
    },
  );

  it("at its own deadline cancels the work, and the request is counted as ended by the deadline (REL-7)", async () => {
    const way = wayOf(name);
    // The deadline of an RPC counts from before its connection is open.
    const opening = way.send({ model: "endless", kind: "stream" });
    await opening.firstItem;
    opening.leave();
    await opening.over;
    const kinds = ["stream", "unary"] as const;
    for (const kind of name === "REST" ? ([...kinds, "streamed response", "response"] as const) : kinds) {
      const before = ended("deadline").length;
      const model = kind.startsWith("stream") ? "endless" : "hanging";
      const sent = way.send({ model, kind, timeoutMs: 300 });
      await sent.over;
      await eventually(() => ended("deadline").length === before + 1, `a deadline in the log after ${kind}`);
    }
    await expectAtRest();
  });
});
