import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.js";
import { chat, complete, post, user } from "../support/model-client.js";
import { type ModelService, startModelService } from "../support/model-service.js";

/** Target duration of evaluating a piece of a prompt, which has at least `pieceTokensMin` tokens. */
const pieceMs = 50;
const pieceTokensMin = 8;
/** Maximum time in addition to one piece until a cancelled request ends; the test allows `slack` times as much. */
const beyondPieceMs = 50;
const slack = 5;
const slots = 4;
const longPromptTokens = 2_000;

let service: ModelService;
let aimMs = 0;
/** Milliseconds of the slowest round, by stage. */
const slowestMs: Record<string, number> = {};

beforeAll(async () => {
  service = await startModelService({ kind: "chat", slots, contextLength: 2_304 });
  aimMs = Math.max(pieceMs, await pieceTookMs()) + beyondPieceMs;
});

afterAll(async () => {
  mkdirSync("test-results/figures", { recursive: true });
  const figures = `${JSON.stringify({ aimMs, slowestMs }, null, 2)}\n`;
  writeFileSync(`test-results/figures/model-cancel-${process.version}.json`, figures);
  await service?.close();
});

/** A prompt that shares no prefix with prompts of other numbers. */
function longPrompt(number: number, tokens: number): string {
  return `${number} ${"one two three four ".repeat(tokens / 4)}`;
}

/** Current duration of the smallest piece of a prompt on this machine. */
async function pieceTookMs(): Promise<number> {
  const startedAtMs = performance.now();
  const { usage } = await complete(service, { prompt: longPrompt(0, 128), max_tokens: 1 });
  return ((performance.now() - startedAtMs) * pieceTokensMin) / usage.prompt_tokens;
}

async function modelState() {
  const [model] = (await service.debugState()).models;
  if (model === undefined) throw new Error("the service has no model");
  return model;
}

/** A streamed request whose client can disconnect. */
interface Sent {
  readonly firstContent: Promise<void>;
  leave(): Promise<void>;
}

function send(path: string, fields: object): Sent {
  const left = new AbortController();
  let over: Promise<unknown> = Promise.resolve();
  const firstContent = new Promise<void>((resolve, reject) => {
    const read = async (): Promise<void> => {
      const { body } = await post(service, path, { stream: true, temperature: 0, ...fields }, left.signal);
      let text = "";
      for await (const chunk of body ?? []) {
        text += Buffer.from(chunk as Uint8Array).toString();
        if (/"(?:content|text)":"[^"]/.test(text)) resolve();
      }
      reject(new Error(`it ended before its client left: ${text}`));
    };
    over = read().catch(reject);
  });
  // After a disconnect the client's request fails, which these tests ignore.
  firstContent.catch(() => {});
  return {
    firstContent,
    async leave() {
      left.abort();
      await over;
    },
  };
}

const story = { messages: [user("Tell me a long story about the sea.")] };

interface Stage {
  readonly name: string;
  /** Whether the answer has begun. */
  readonly answers: boolean;
  reach(round: number): Promise<Sent>;
}

/** The stage of a request at which its client disconnects. */
const stages: readonly Stage[] = [
  {
    name: "in the prefill of a prompt of 2,000 tokens",
    answers: false,
    async reach(round) {
      const sent = send("/completions", { prompt: longPrompt(round + 1, longPromptTokens), max_tokens: 8 });
      await eventually(async () => (await modelState()).busy === 1, "the prompt's slot");
      // The client disconnects within the first second; the whole answer takes several seconds.
      await delay((round * 137) % 1_000);
      return sent;
    },
  },
  {
    name: "in its answer",
    answers: true,
    async reach() {
      const sent = send("/chat/completions", story);
      await sent.firstContent;
      return sent;
    },
  },
  {
    name: "in four parallel answers",
    answers: true,
    async reach() {
      const sent = send("/chat/completions", { ...story, n: 4, temperature: 1 });
      await sent.firstContent;
      await eventually(async () => (await modelState()).busy === 4, "the slots of four answers", 30_000);
      return sent;
    },
  },
];

/** Milliseconds from the disconnect until the model's running and queued calls are as before. */
async function leave(sent: Sent, before: { readonly busy: number; readonly waiting: number }): Promise<number> {
  const leftAtMs = performance.now();
  const left = sent.leave();
  await eventually(async () => {
    const { busy, waiting } = await modelState();
    return busy === before.busy && waiting === before.waiting;
  }, "the end of the engine's work");
  const tookMs = performance.now() - leftAtMs;
  await left;
  return tookMs;
}

/** Log lines of requests whose clients disconnected, from index `from` on. */
function leftRequests(from = 0): readonly Record<string, unknown>[] {
  return service.logs.filter(({ msg, outcome }) => msg === "request" && outcome === "client_left").slice(from);
}

describe("a client of the real chat model that disconnects", () => {
  const count = 20;
  const timeout = count * 60_000;

  it.each(stages)(
    "$name frees the slots within one token, and the produced tokens are counted (REL-2)",
    { timeout },
    async ({ name, answers, reach }) => {
      const before = leftRequests().length;
      const { produced_tokens: producedBefore } = await modelState();
      const tookMs: number[] = [];
      for (let round = 0; round < count; round++) {
        tookMs.push(await leave(await reach(round), { busy: 0, waiting: 0 }));
      }
      slowestMs[name] = Math.max(...tookMs);
      expect(slowestMs[name]).toBeLessThan(slack * aimMs);
      await eventually(() => leftRequests(before).length === count, "the log of those that left");
      const lines = leftRequests(before);
      const tokensOf = (line: Record<string, unknown>): number => Number(line["completion_tokens"] ?? 0);
      expect(lines.filter((line) => tokensOf(line) > 0)).toHaveLength(answers ? count : 0);
      expect(lines.reduce((sum, line) => sum + tokensOf(line), 0)).toBe(
        (await modelState()).produced_tokens - producedBefore,
      );
      const promptTokensMin = answers ? 1 : longPromptTokens;
      for (const line of lines) expect(line["prompt_tokens"]).toBeGreaterThanOrEqual(promptTokensMin);
    },
  );

  it("is removed from the queue immediately, and no tokens are counted for it (REL-2)", { timeout }, async () => {
    const blocker = send("/chat/completions", { ...story, n: slots, temperature: 1 });
    await eventually(async () => (await modelState()).busy === slots, "the slots of the blocker", 30_000);
    const before = leftRequests().length;
    const tookMs: number[] = [];
    for (let round = 0; round < count; round++) {
      const sent = send("/chat/completions", story);
      await eventually(async () => (await modelState()).waiting === 1, "the place in the queue");
      tookMs.push(await leave(sent, { busy: slots, waiting: 0 }));
    }
    slowestMs["in the queue"] = Math.max(...tookMs);
    expect(slowestMs["in the queue"]).toBeLessThan(slack * aimMs);
    await eventually(() => leftRequests(before).length === count, "the log of those that left");
    for (const line of leftRequests(before)) expect(line["completion_tokens"] ?? 0).toBe(0);
    await leave(blocker, { busy: 0, waiting: 0 });
  });

  it("leaves every slot usable", async () => {
    const { choices } = await chat(service, { messages: [user("What is 7 + 5?")], n: slots });
    expect(choices).toHaveLength(slots);
    for (const { message, finish_reason } of choices) {
      expect(finish_reason).toBe("stop");
      expect(message.content).toContain("12");
    }
    expect(service.logs.filter(({ msg }) => msg === "engine process ended")).toEqual([]);
  });
});
