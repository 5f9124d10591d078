import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { APICallError, streamText } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { collect } from "./collect.js";

const said = "One two three.";
const messages = [{ role: "user", content: "Hi" }] as const;

/** The status as which @ai-sdk/openai classifies an error event before any output, by the error's code. */
const failures = [
  { code: "internal_error", status: 500 },
  { code: "upstream_error", status: 500 },
  { code: "server_is_overloaded", status: 503 },
  { code: "upstream_timeout", status: 504 },
] as const;

const models = [
  { id: "slow", engine: "scripted", scripted: { text: said, first_token_delay_ms: 600, token_delay_ms: 300 } },
  { id: "silent", engine: "scripted", slots: 1, scripted: { hang_after_tokens: 0 } },
  ...failures.map(({ code }) => ({
    id: `late-${code}`,
    engine: "scripted",
    scripted: { first_token_delay_ms: 400, fail: { code } },
  })),
];

/** Far shorter than the defaults, so that a second contains many keep-alives. */
const hasty = { sse_keep_alive: "50ms", commit: "100ms" };

/** Clients, each of which reads a slow stream to its end. */
const clients: Readonly<Record<string, (service: RunningService) => Promise<string>>> = {
  "npm openai": async (service) => {
    const stream = await openAi(service).chat.completions.create({
      model: "slow",
      messages: [...messages],
      stream: true,
    });
    return (await collect(stream)).map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  },
  "the stream helper of npm openai": async (service) => {
    const runner = openAi(service).chat.completions.stream({ model: "slow", messages: [...messages] });
    return (await runner.finalContent()) ?? "";
  },
  "npm openai, legacy": async (service) => {
    const stream = await openAi(service).completions.create({ model: "slow", prompt: "Hi", stream: true });
    return (await collect(stream)).map(({ choices }) => choices[0]?.text ?? "").join("");
  },
  "@ai-sdk/openai": async (service) => {
    const model = createOpenAI({ baseURL: service.api, apiKey: service.key }).chat("slow");
    return await streamText({ model, prompt: "Hi", maxRetries: 0 }).text;
  },
  "@ai-sdk/openai-compatible": async (service) => {
    const provider = createOpenAICompatible({ name: "unified", baseURL: service.api, apiKey: service.key });
    return await streamText({ model: provider.chatModel("slow"), prompt: "Hi", maxRetries: 0 }).text;
  },
  LangChain: async (service) => {
    const configuration = { baseURL: service.api };
    const model = new ChatOpenAI({ model: "slow", apiKey: service.key, configuration, maxRetries: 0 });
    return (await collect(await model.stream("Hi"))).map(({ content }) => content).join("");
  },
};

function openAi({ key, api }: RunningService): OpenAI {
  return new OpenAI({ apiKey: key, baseURL: api, maxRetries: 0 });
}

function postChat({ api, key }: RunningService, model: string, signal?: AbortSignal): Promise<Response> {
  return fetch(`${api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages, stream: true }),
    ...(signal && { signal }),
  });
}

describe.each(["comment", "chunk", "off"] as const)("a slow stream with keep-alives as %s", (mode) => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({ config: { models, limits: hasty, sse: { keep_alive: mode } } });
  });
  afterAll(() => service.close());

  it.concurrent.each(Object.entries(clients))("is read completely by %s (SSE-8, SSE-9)", async (_, read) => {
    expect(await read(service)).toBe(said);
  });

  it.concurrent("has keep-alives only between events, in the configured form (SSE-8, SSE-9)", async () => {
    const text = await (await postChat(service, "slow")).text();
    expect(text).toMatch(/^(: keep-alive\n|data: [^\n]+\n\n)+$/);
    const lines = text.match(/: keep-alive\n|data: [^\n]+\n\n/g) ?? [];
    const firstData = lines.findIndex((line) => line.startsWith("data: "));
    const silent = { before: lines.slice(0, firstData), amid: lines.slice(firstData).filter(isKeepAlive) };
    const isComment = (line: string): boolean => line.startsWith(":");
    if (mode === "off") {
      expect(silent).toEqual({ before: [], amid: [] });
    } else {
      expect(silent.before.length).toBeGreaterThan(0);
      expect(silent.before.every(isComment)).toBe(true);
      expect(silent.amid.length).toBeGreaterThan(0);
      expect(silent.amid.every((line) => isComment(line) === (mode === "comment"))).toBe(true);
    }
  });
});

/** Whether a line is a keep-alive: a comment, or a chunk without text and finish reason. */
function isKeepAlive(line: string): boolean {
  return line.startsWith(":") || /"delta":\{\},"logprobs":null,"finish_reason":null/.test(line);
}

describe("a stream without output yet", () => {
  it("gets its headers two seconds after it got a slot, and keep-alives from then on (SSE-13, CONN-2)", async () => {
    const service = await startService({ config: { models, limits: { sse_keep_alive: "200ms" } } });
    const leave = new AbortController();
    const askedAtMs = performance.now();
    const answer = await postChat(service, "silent", leave.signal);
    const waitedMs = performance.now() - askedAtMs;
    expect(answer.status).toBe(200);
    expect(waitedMs).toBeGreaterThan(1_900);
    expect(waitedMs).toBeLessThan(10_000);
    const body = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await body?.read())?.value).toBe(": keep-alive\n");
    leave.abort();
    await service.close();
  });

  it("has no status while it waits for a slot, so that a timeout can still be answered with 503 (SSE-12, SSE-13, ERR-24)", async () => {
    const service = await startService({ config: { models, limits: { ...hasty, queue_wait: "500ms" } } });
    const leave = new AbortController();
    const holder = await postChat(service, "silent", leave.signal);
    const waiting = await postChat(service, "silent");
    expect([holder.status, waiting.status]).toEqual([200, 503]);
    expect(await waiting.json()).toMatchObject({ error: { code: "server_is_overloaded" } });
    leave.abort();
    await service.close();
  });

  it("may fail after its headers, and @ai-sdk/openai then recognises the error as retryable (SERR-6)", async () => {
    const service = await startService({ config: { models, limits: hasty } });
    const provider = createOpenAI({ baseURL: service.api, apiKey: service.key });
    const outcomes = failures.map(async ({ code }) => {
      const errors: unknown[] = [];
      const onError = ({ error }: { error: unknown }): void => {
        errors.push(error);
      };
      const result = streamText({ model: provider.chat(`late-${code}`), prompt: "Hi", maxRetries: 0, onError });
      await collect(result.fullStream);
      return errors.map((error) => APICallError.isInstance(error) && [error.statusCode, error.isRetryable]);
    });
    expect(await Promise.all(outcomes)).toEqual(failures.map(({ status }) => [[status, true]]));
    await service.close();
  });
});
