import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LoadedModel } from "../../src/domain/engine/engine.js";
import { realModelFile } from "../support/model-service.js";
import {
  chatRequest,
  completionRequest,
  loadUpstreamModel,
  never,
  runEvents,
  textOf,
  upstreamSettings,
  userMessage,
} from "../support/upstream/engine-calls.js";
import { LlamaServer, whyNoLlamaServer } from "../support/upstream/llama-server.js";

const contextLength = 1_024;
let reason: string | null = null;
const servers: LlamaServer[] = [];
let chat: LoadedModel;
let embedder: LoadedModel;

async function load(kind: "chat" | "embedding"): Promise<LoadedModel> {
  const file = await realModelFile(kind);
  const length = kind === "chat" ? contextLength : 512;
  const server = await LlamaServer.start({ file, embedding: kind === "embedding", slots: 1, contextLength: length });
  servers.push(server);
  const capabilities = kind === "embedding" ? ({ operations: ["embeddings"], abilities: [] } as const) : null;
  return await loadUpstreamModel(
    upstreamSettings(server.url, { kind: "llama-server", idleMs: 60_000, firstByteMs: 60_000 }),
    {
      model: file,
      capabilities,
    },
  );
}

beforeAll(async () => {
  reason = await whyNoLlamaServer();
  if (reason !== null) return;
  chat = await load("chat");
  embedder = await load("embedding");
});

afterAll(async () => {
  for (const server of servers) await server.stop();
});

describe("llama.cpp's own server as an upstream", () => {
  it("lists its context length and the length of its vectors", (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    expect(chat.caps).toMatchObject({ chat: true, contextLength });
    expect(embedder.caps).toMatchObject({ embeddings: true, embeddingDims: 384 });
  });

  it("streams an answer with exact usage", async (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    const { events, error } = await runEvents(chat, chatRequest({ maxTokens: 8, temperature: 0 }));
    expect(error).toBeNull();
    expect(textOf(events).length).toBeGreaterThan(4);
    expect(events.at(-2)).toMatchObject({ type: "finish", reason: "length", outTokens: 8 });
    expect(events.at(-1)).toMatchObject({ type: "usage", outTokens: 8 });
  });

  it("completes a prompt with log probabilities, and with an echo, which this service adds", async (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    const { events, error } = await runEvents(
      chat,
      completionRequest({ maxTokens: 3, temperature: 0, logprobs: 2, echo: true }),
    );
    expect(error).toBeNull();
    expect(textOf(events)).toMatch(/^The capital of France is./);
    const logprobs = events.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []));
    expect(logprobs).toHaveLength(3);
    expect(logprobs.every(({ top }) => top.length === 2)).toBe(true);
  });

  it("rejects a prompt that exceeds its context with the message for which clients search (ERR-26)", async (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    const { error } = await runEvents(chat, chatRequest({ messages: [userMessage("word ".repeat(2_000))] }));
    expect(error).toMatchObject({ code: "context_overflow", param: "messages" });
    expect(error?.message).toContain(`maximum context length is ${contextLength} tokens`);
  });

  it("frees its only slot when a request is aborted, streamed or not (REL-2)", async (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    for (const deltas of ["each", "joined"] as const) {
      const abort = new AbortController();
      const request = chatRequest({
        deltas,
        temperature: 0,
        messages: [userMessage("Count from 1 to 1000.")],
        maxTokens: 900,
      });
      const running = chat.generate(request, abort.signal, (event) => {
        if (event.type === "text") setImmediate(() => abort.abort());
        return undefined;
      });
      await expect(running).rejects.toMatchObject({ code: "aborted" });
      const startedAtMs = performance.now();
      expect((await runEvents(chat, chatRequest({ maxTokens: 1 }))).error).toBeNull();
      // An answer of 900 tokens would take far longer on one thread.
      expect(performance.now() - startedAtMs).toBeLessThan(10_000);
    }
  });

  it("returns unit vectors in base64", async (context) => {
    if (reason !== null) return context.skip(`no server: ${reason}`);
    const { vectors, promptTokens } = await embedder.embed({ inputs: ["a cat", "a dog"] }, never);
    expect(vectors).toHaveLength(2);
    for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 3);
    expect(promptTokens).toBeGreaterThan(4);
  });
});
