import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe } from "vitest";
import type { LoadedModel } from "../../src/domain/engine/engine.js";
import { writeRandomBertGguf, writeRandomGguf } from "../support/gguf/random-gguf.js";
import { writeScriptedGguf } from "../support/gguf/scripted-gguf.js";
import { hasPython } from "../support/python-venv.js";
import { loadUpstreamModel, upstreamSettings } from "../support/upstream/engine-calls.js";
import { LlamaServer } from "../support/upstream/llama-server.js";
import { describeEngine } from "./engine.suite.js";

/** Text of an answer in which no word occurs twice. */
const text =
  "Once upon a time there was small fox who lived 🦊 under the hill and every morning it ran down to " +
  "drink from cold river, 河の水 because nothing else tasted quite so good after long night without any dreams at all";

const files = {
  scripted: (path: string) => writeScriptedGguf(path, { text }),
  slow: (path: string) => writeRandomGguf(path, { layers: 4, heads: 12 }),
  embedding: (path: string) => writeRandomBertGguf(path),
};
type Model = keyof typeof files;

const folder = mkdtempSync(join(tmpdir(), "llama-server-suite-"));
const servers = new Map<Model, Promise<LlamaServer>>();
const shared = new Map<Model, Promise<LoadedModel>>();

afterAll(async () => {
  for (const model of shared.values()) await (await model).unload(0);
  for (const server of servers.values()) await (await server).stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(model: Model): Promise<LlamaServer> {
  const file = join(folder, `${model}.gguf`);
  await files[model](file);
  const contextLength = model === "embedding" ? 512 : 1_024;
  return await LlamaServer.start({ file, slots: 2, contextLength, embedding: model === "embedding", alias: model });
}

async function load(model: Model): Promise<LoadedModel> {
  const server = servers.get(model) ?? start(model);
  servers.set(model, server);
  return await loadUpstreamModel(upstreamSettings((await server).url, { kind: "llama-server" }), { model, slots: 2 });
}

function sharedModel(model: Model): Promise<LoadedModel> {
  const loaded = shared.get(model) ?? load(model);
  shared.set(model, loaded);
  return loaded;
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("llama.cpp's own server", () => {
  describeEngine("openai", {
    chat: () => sharedModel("scripted"),
    slowChat: () => sharedModel("slow"),
    ownSlowChat: () => load("slow"),
    embeddings: () => sharedModel("embedding"),
    rerank: null,
  });
});
