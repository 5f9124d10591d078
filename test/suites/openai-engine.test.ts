import { afterAll } from "vitest";
import type { LoadedModel } from "../../src/domain/engine/engine.js";
import { loadUpstreamModel, upstreamSettings } from "../support/upstream/engine-calls.js";
import type { RawUpstream } from "../support/upstream/raw-upstream.js";
import { startScriptedUpstream, type UpstreamScript } from "../support/upstream/scripted-upstream.js";
import { describeEngine } from "./engine.suite.js";

const servers: RawUpstream[] = [];
const models: LoadedModel[] = [];
afterAll(async () => {
  for (const model of models) await model.unload(0);
  for (const server of servers) await server.close();
});

/** Loads a model from a separate server. */
async function load(model: string, changes: Partial<UpstreamScript> = {}): Promise<LoadedModel> {
  const server = await startScriptedUpstream({
    text: "Once upon a time there was a small fox who lived 🦊 under a hill.",
    tokens: 40,
    tokenDelayMs: 0,
    contextLength: 4_096,
    embeddingDims: 8,
    ...changes,
  });
  servers.push(server);
  const loaded = await loadUpstreamModel(upstreamSettings(server.url, { kind: "vllm" }), { model, slots: 2 });
  models.push(loaded);
  return loaded;
}

const slow = { tokens: 2_000, tokenDelayMs: 5 };

describeEngine("openai", {
  chat: () => load("chat"),
  slowChat: () => load("chat", slow),
  ownSlowChat: () => load("chat", slow),
  embeddings: () => load("embedder"),
  rerank: () => load("reranker"),
});
