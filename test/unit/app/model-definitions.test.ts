import { describe, expect, it } from "vitest";
import { toModelDefinitions } from "../../../src/app/compose/model-catalog.js";
import { configSchema } from "../../../src/app/config/schema.js";
import type { Engine } from "../../../src/domain/engine/engine.js";
import { deploymentOn } from "../../support/deployments.js";

// The tests distinguish the engines by their `load` functions.
const scripted: Engine = { load: () => Promise.reject(new Error("scripted: not asked for")) };
const llama: Engine = { load: () => Promise.reject(new Error("llama: not asked for")) };

const openai: Engine = { load: () => Promise.reject(new Error("openai: not asked for")) };

const definitionsOf = (models: object[]) =>
  toModelDefinitions({ config: configSchema.parse({ models }), upstreams: [] }, { scripted, llama, openai });

describe("toModelDefinitions", () => {
  it("creates one deployment from the short form, with the documented defaults", () => {
    expect(definitionsOf([{ id: "m", engine: "scripted", scripted: { text: "x" } }])).toEqual([
      {
        id: "m",
        ownedBy: "unified-inference",
        capabilities: null,
        prices: [],
        affinity: "none",
        defaults: null,
        fallbacks: [],
        deployments: [deploymentOn(scripted, { id: "embedded/m", slots: 64, queueMax: 256, options: { text: "x" } })],
      },
    ]);
  });

  it("keeps fixed prices and prices with a start time; cached tokens cost as much as input by default (USE-8)", () => {
    const pricesOf = (prices: unknown) => definitionsOf([{ id: "m", engine: "scripted", prices } as object])[0]?.prices;
    expect(pricesOf({ input: 10, output: 20 })).toEqual([{ fromMs: 0, input: 10, cachedInput: 10, output: 20 }]);
    const later = { from: "2026-02-01T00:00:00Z", input: 5, cached_input: 1, output: 0 };
    expect(pricesOf([later, { from: "2026-01-01T00:00:00Z", input: 9 }])).toEqual([
      { fromMs: Date.UTC(2026, 0, 1), input: 9, cachedInput: 9, output: 0 },
      { fromMs: Date.UTC(2026, 1, 1), input: 5, cachedInput: 1, output: 0 },
    ]);
  });

  it("throws for the name of an unknown engine", () => {
    const config = configSchema.parse({ models: [{ id: "m", engine: "scripted" }] });
    const models = config.models?.map((model) => ({ ...model, engine: "oip" as never })) ?? [];
    const configured = { config: { ...config, models }, upstreams: [] };
    expect(() => toModelDefinitions(configured, { scripted, llama, openai })).toThrow("there is no engine 'oip'");
    expect(() => definitionsOf([{ id: "m", engine: "vllm" }])).toThrow("must be one of scripted, llama, openai");
  });

  it("sets the queue to four times the slots, at most 512, by default", () => {
    const queueMax = (settings: object) =>
      definitionsOf([{ id: "m", engine: "scripted", ...settings }])[0]?.deployments[0]?.queueMax;
    expect([queueMax({ slots: 1 }), queueMax({ slots: 1000 }), queueMax({ queue_max: 0 })]).toEqual([4, 512, 0]);
  });

  it("prefers the model's own context length to that in `scripted`", () => {
    const contextLength = (settings: object) =>
      definitionsOf([{ id: "m", engine: "scripted", ...settings }])[0]?.deployments[0]?.contextLength;
    expect(contextLength({ scripted: { context_length: 10 } })).toBe(10);
    expect(contextLength({ context_length: 20, scripted: { context_length: 10 } })).toBe(20);
  });

  it("sets a vector length of 8 for an embedding model without one", () => {
    const [model] = definitionsOf([{ id: "m", engine: "scripted", capabilities: ["embeddings"] }]);
    expect(model).toMatchObject({ capabilities: ["embeddings"], deployments: [{ options: { dimensions: 8 } }] });
  });

  it("makes a model with the capability rerank a reranking model, unless `scripted` sets another value", () => {
    const optionsOf = (settings: object) =>
      definitionsOf([{ id: "m", engine: "scripted", ...settings }])[0]?.deployments[0]?.options;
    expect(optionsOf({ capabilities: ["rerank"] })).toEqual({ rerank: true });
    expect(optionsOf({ capabilities: ["embeddings", "rerank"] })).toEqual({ dimensions: 8, rerank: true });
    expect(optionsOf({ capabilities: ["rerank"], scripted: { rerank: false } })).toEqual({ rerank: false });
  });

  it("keeps every deployment with its own settings", () => {
    const deployments = [
      { engine: "scripted", weight: 2, slots: 3 },
      { engine: "scripted", scripted: { text: "b" } },
    ];
    const [model] = definitionsOf([{ id: "m", deployments }]);
    expect(model?.deployments).toMatchObject([
      { weight: 2, slots: 3, queueMax: 12 },
      { weight: 1, slots: 64, options: { text: "b" } },
    ]);
  });

  it("gives a model of the embedded engine four slots and the sources of its file", () => {
    const sha256 = "AB".repeat(32);
    expect(definitionsOf([{ id: "m", engine: "llama", source: "file:/m.gguf", sha256 }])[0]?.deployments).toEqual([
      deploymentOn(llama, {
        id: "embedded/m",
        options: { id: "m", source: "file:/m.gguf", sha256: sha256.toLowerCase() },
      }),
    ]);
  });

  it("rejects settings of another engine", () => {
    const problem = (model: object) =>
      configSchema.safeParse({ models: [{ id: "m", ...model }] }).error?.issues[0]?.path;
    expect(problem({ engine: "scripted", source: "file:/m.gguf" })).toEqual(["models", 0, "source"]);
    expect(problem({ engine: "llama", scripted: {} })).toEqual(["models", 0, "scripted"]);
    expect(problem({ deployments: [{ engine: "llama", scripted: {} }] })).toEqual([
      "models",
      0,
      "deployments",
      0,
      "scripted",
    ]);
  });
});
