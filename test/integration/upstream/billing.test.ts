import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatOf, createChatCompletion, streamChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay, type RpcWay, wayNames } from "../../conformance/rpc/ways.js";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { rounds } from "../../support/tier.js";
import { RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";

const promptTokens = 11;
/** A server may send several tokens in one chunk. */
const tokensPerChunk = 3;
/** Chunks of an answer without an end. */
const chunksSent = 5;

const chunk = (more: object): string =>
  sse({ choices: [{ index: 0, delta: { content: "word " }, finish_reason: null }], ...more });
const usageOf = (completion: number, cached = 0) => ({
  usage: {
    prompt_tokens: promptTokens,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
  },
});

/** Answers without an end whose chunks have all been sent. */
let written = 0;

/** Sends some chunks and then nothing. */
function answerWithoutEnd(socket: Socket, statesUsage: boolean): void {
  const role = sse({ choices: [{ index: 0, delta: { role: "assistant" } }], ...(statesUsage ? usageOf(0) : {}) });
  socket.write(streamHead + role);
  for (let at = 1; at <= chunksSent; at++) socket.write(chunk(statesUsage ? usageOf(at * tokensPerChunk) : {}));
  written += 1;
}

/** Sends two chunks, and a usage that differs from their number. */
function answerWhole(socket: Socket, completion: number, cached: number): void {
  const finish = sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  const usage = sse({ choices: [], ...usageOf(completion, cached) });
  socket.end(streamHead + chunk({}) + chunk({}) + finish + usage + sse("[DONE]"));
}

let upstream: RawUpstream;
let service: RunningService;
let ways: readonly RpcWay[];
/** Usage that each whole answer so far has stated. */
const stated: { completion: number; cached: number }[] = [];

beforeAll(async () => {
  upstream = await RawUpstream.start((socket, { method, body }) => {
    if (method !== "POST") socket.end();
    else if (body.includes('"model":"whole"')) {
      const at = stated.length;
      const usage = { completion: 1 + ((at * 37) % 500), cached: at % promptTokens };
      stated.push(usage);
      answerWhole(socket, usage.completion, usage.cached);
    } else answerWithoutEnd(socket, body.includes('"model":"stated"'));
  });
  const models = ["stated", "counted", "whole"].map((id) => ({
    ...{ id, engine: "openai", upstream: id === "counted" ? "generic" : "vllm", model: id },
    prices: { input: 10, cached_input: 1, output: 100 },
  }));
  const at = (kind: string) => ({ url: upstream.url, kind, discover: "off" });
  service = await startService({ config: { upstreams: { vllm: at("vllm"), generic: at("generic") }, models } });
  ways = wayNames.map((name) => openWay(name, service));
});
afterAll(async () => {
  for (const way of ways) way.close();
  await service.close();
  await upstream.close();
});

interface Totals {
  readonly num_model_requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly input_cached_tokens: number;
  readonly cost_nano_dollars: number;
}

async function totalsOf(model: string): Promise<Totals> {
  const { json } = await new ServiceClient(service.api, service.key).get(`/v1/usage?limit=1&group_by=model`);
  const [bucket] = json["data"] as { results: (Totals & { model: string })[] }[];
  const none = {
    num_model_requests: 0,
    input_tokens: 0,
    output_tokens: 0,
    input_cached_tokens: 0,
    cost_nano_dollars: 0,
  };
  return bucket?.results.find((result) => result.model === model) ?? none;
}

/** Functions by protocol: each starts a chat that `signal` aborts. */
const leaving: Readonly<Record<string, (model: string, signal: AbortSignal) => Promise<unknown>>> = {
  "REST, streamed": (model, signal) => restChat(model, true, signal),
  "REST, unary": (model, signal) => restChat(model, false, signal),
  ...Object.fromEntries(
    wayNames.flatMap((name, at) => [
      [
        `${name}, streamed`,
        (model: string, signal: AbortSignal) => ways[at]?.call(streamChatCompletion, chatOf(model), { signal }),
      ],
      [
        `${name}, unary`,
        (model: string, signal: AbortSignal) => ways[at]?.call(createChatCompletion, chatOf(model), { signal }),
      ],
    ]),
  ),
};

async function restChat(model: string, stream: boolean, signal: AbortSignal): Promise<void> {
  const response = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "Say something." }] }),
    signal,
  });
  await response.text();
}

const stillReadings = 5;

/**
 * Resolves when the service has processed all chunks of the upstream: each chunk lowers the number of outstanding tokens.
 */
async function allChunksTaken(model: string, writtenBefore: number): Promise<void> {
  await eventually(() => written > writtenBefore, "the chunks of the upstream");
  let last = 0;
  let still = 0;
  await eventually(async () => {
    const { deployments } = await service.debugState();
    const now = deployments.find((deployment) => deployment.model === model)?.outstanding_tokens ?? 0;
    still = now > 0 && now === last ? still + 1 : 0;
    last = now;
    return still === stillReadings;
  }, "a service that has taken the chunks");
}

describe("usage charged for a request whose client disconnects", () => {
  it.each(Object.entries(leaving))(
    "%s: is the last usage that the upstream stated, otherwise the number of chunks (REL-2)",
    async (_, chat) => {
      for (const [model, tokens, slack] of [
        ["stated", chunksSent * tokensPerChunk, tokensPerChunk],
        ["counted", chunksSent, 1],
      ] as const) {
        const before = await totalsOf(model);
        const leave = new AbortController();
        const writtenBefore = written;
        const left = chat(model, leave.signal).catch(() => {});
        await allChunksTaken(model, writtenBefore);
        leave.abort();
        await left;
        await eventually(
          async () => (await totalsOf(model)).num_model_requests > before.num_model_requests,
          "the bill",
        );
        const after = await totalsOf(model);
        const billed = after.output_tokens - before.output_tokens;
        expect(billed).toBeGreaterThanOrEqual(tokens - slack);
        expect(billed).toBeLessThanOrEqual(tokens);
        const input = after.input_tokens - before.input_tokens;
        if (model === "stated") expect(input).toBe(promptTokens);
        else expect(input).toBeGreaterThan(0);
        expect(after.cost_nano_dollars - before.cost_nano_dollars).toBe(10 * input + 100 * billed);
      }
    },
  );
});

describe("usage charged for a finished request", () => {
  it("is always the usage that its upstream stated", async () => {
    const client = new ServiceClient(service.api, service.key);
    const count = rounds(1_000);
    for (let sent = 0; sent < count; sent += 10) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          client.chat("whole", at % 2 === 0 ? {} : { stream: true, stream_options: { include_usage: true } }),
        ),
      );
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    const sum = (of: (usage: (typeof stated)[number]) => number) =>
      stated.reduce((total, usage) => total + of(usage), 0);
    const [output, cached] = [sum(({ completion }) => completion), sum((usage) => usage.cached)];
    expect(await totalsOf("whole")).toMatchObject({
      num_model_requests: count,
      input_tokens: count * promptTokens,
      input_cached_tokens: cached,
      output_tokens: output,
      cost_nano_dollars: 10 * (count * promptTokens - cached) + cached + 100 * output,
    });
    const lines = service.logs.filter((line) => line["msg"] === "request" && line["model"] === "whole");
    const logged = lines.map((line) => Number(line["completion_tokens"])).sort((a, b) => a - b);
    expect(logged).toEqual(stated.map(({ completion }) => completion).sort((a, b) => a - b));
  });
});
