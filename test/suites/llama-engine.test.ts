import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, vi } from "vitest";
import { EngineError, type LoadedModel } from "../../src/domain/engine/engine.js";
import { llamaEngine, type ModelFile } from "../../src/engines/llama/llama-engine.js";
import { createSystemClock } from "../../src/lib/clock.js";
import { writeRandomBertGguf, writeRandomGguf } from "../support/gguf/random-gguf.js";
import { writeScriptedGguf } from "../support/gguf/scripted-gguf.js";
import { processorBuild } from "../support/llama/processor-build.js";
import { silentLog } from "../support/silent-log.js";
import { describeEngine } from "./engine.suite.js";

// Each test starts processes, which is slow on a machine that is busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** Text of an answer in which no word occurs twice. */
const text =
  "Once upon a time there was small fox who lived 🦊 under the hill and every morning it ran down to " +
  "drink from cold river, 河の水 because nothing else tasted quite so good after long night without any dreams at all";

const folder = mkdtempSync(join(tmpdir(), "llama-suite-"));
const files: Readonly<Record<string, ModelFile>> = {
  scripted: { path: join(folder, "scripted.gguf"), kind: "chat", trainedContext: 2048 },
  slow: { path: join(folder, "slow.gguf"), kind: "chat", trainedContext: 2048 },
  embedding: { path: join(folder, "bert.gguf"), kind: "embedding", trainedContext: 512 },
};

const engine = llamaEngine.create({
  clock: createSystemClock(),
  log: silentLog,
  files: {
    async locate(options) {
      const file = files[String(options)];
      if (file === undefined) throw new EngineError("model_not_loaded", "there is no such file");
      return file;
    },
  },
  settings: { stallMs: 30_000, circuitCrashes: 5, threads: 1, build: processorBuild },
  environment: process.env,
});

/** Starting a process takes seconds on a busy machine, so the tests share one process for each model. */
const shared = new Map<string, Promise<LoadedModel>>();

function load(name: string): Promise<LoadedModel> {
  const spec = { id: name, deployment: `embedded/${name}`, contextLength: 1024, slots: 2, options: name };
  return engine.load(spec, () => {}, new AbortController().signal);
}

function sharedModel(name: string): Promise<LoadedModel> {
  const model = shared.get(name) ?? load(name);
  shared.set(name, model);
  return model;
}

beforeAll(async () => {
  await writeScriptedGguf(join(folder, "scripted.gguf"), { text });
  await writeRandomGguf(join(folder, "slow.gguf"), { layers: 4, heads: 12 });
  await writeRandomBertGguf(join(folder, "bert.gguf"));
});

afterAll(async () => {
  await Promise.all([...shared.values()].map(async (model) => (await model).unload(0)));
  rmSync(folder, { recursive: true, force: true });
});

describeEngine("llama", {
  chat: () => sharedModel("scripted"),
  slowChat: () => sharedModel("slow"),
  ownSlowChat: () => load("slow"),
  embeddings: () => sharedModel("embedding"),
  rerank: null,
});
