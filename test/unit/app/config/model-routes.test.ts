import { describe, expect, it } from "vitest";
import { toModelRoutes } from "../../../../src/app/config/model-routes.js";
import { configSchema } from "../../../../src/app/config/schema.js";
import type { UpstreamDefinition } from "../../../../src/domain/engine/upstream.js";

const kinds = { gpu: "vllm", cpu: "llama-server", paid: "openai" } as const;
const definitions = Object.keys(kinds).map((name) => ({ name }) as UpstreamDefinition);

function routesOf(models: readonly object[]) {
  const upstreams = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [name, { url: "http://h/v1", kind }]),
  );
  return toModelRoutes(configSchema.parse({ upstreams, models }), definitions);
}

const idsOf = (models: readonly object[]) => routesOf(models).map(({ deployments }) => deployments.map(({ id }) => id));
const on = (upstream: string, rest: object = {}) => ({ engine: "openai", upstream, ...rest });

describe("toModelRoutes", () => {
  it("resolves every default of a deployment of an upstream", () => {
    expect(routesOf([{ id: "m", deployments: [on("gpu", { model: "org/m" })] }])).toEqual([
      {
        id: "m",
        affinity: "none",
        fallbacks: [],
        deployments: [
          {
            id: "gpu/org/m",
            weight: 1,
            priority: 0,
            slots: 256,
            queueMax: 512,
            prices: null,
            upstream: {
              upstream: definitions[0],
              model: "org/m",
              passThrough: [],
              contextLength: null,
              capabilities: null,
            },
          },
        ],
      },
    ]);
  });

  it("uses the values that are set, and treats a list of capabilities as complete", () => {
    const set = {
      id: "own",
      slots: 10,
      queue_max: 1,
      weight: 3,
      priority: 2,
      prices: { input: 5 },
      pass_through: ["guided_json"],
      context_length: 8192,
      capabilities: ["tools", "chat"],
    };
    const [route] = routesOf([
      { id: "m", affinity: "session", fallbacks: ["n"], deployments: [on("paid", set)] },
      { id: "n", engine: "scripted" },
    ]);
    expect(route).toMatchObject({ affinity: "session", fallbacks: ["n"] });
    expect(route?.deployments[0]).toMatchObject({
      id: "own",
      slots: 10,
      queueMax: 1,
      weight: 3,
      priority: 2,
      prices: [{ fromMs: 0, input: 5, cachedInput: 5, output: 0 }],
      upstream: {
        model: "m",
        passThrough: ["guided_json"],
        contextLength: 8192,
        capabilities: { operations: ["chat"], abilities: ["tools"] },
      },
    });
  });

  it("distinguishes a price of 0 from an absent one, for which the model's prices apply", () => {
    const pricesOf = (prices: object) =>
      routesOf([{ id: "m", deployments: [on("gpu", { prices })] }])[0]?.deployments[0]?.prices;
    expect(pricesOf({})).toBeNull();
    expect(pricesOf({ input: 0, output: 0 })).toEqual([]);
  });

  it("names deployments by their upstream and model, or as embedded", () => {
    const models = [
      { id: "a", deployments: [on("gpu"), on("cpu", { model: "b" })] },
      { id: "b", engine: "scripted" },
      { id: "c", ...on("paid", { model: "gpt" }) },
    ];
    expect(idsOf(models)).toEqual([["gpu/a", "cpu/b"], ["embedded/b"], ["paid/gpt"]]);
  });

  it("numbers deployments that would have the same id, and avoids ids that are set", () => {
    const models = [
      { id: "a", deployments: [on("gpu", { model: "x" }), on("gpu", { model: "x" })] },
      { id: "alias", deployments: [on("gpu", { model: "x" }), on("cpu", { id: "gpu/x#2" })] },
    ];
    expect(idsOf(models)).toEqual([
      ["gpu/x", "gpu/x#3"],
      ["gpu/x#4", "gpu/x#2"],
    ]);
  });

  it("sends equal prompts to one deployment by default if several upstreams have a prompt cache", () => {
    const affinityOf = (...upstreams: string[]) =>
      routesOf([{ id: "m", deployments: upstreams.map((name) => on(name)) }])[0]?.affinity;
    expect(affinityOf("gpu", "cpu")).toBe("prefix");
    expect(affinityOf("gpu", "paid")).toBe("none");
    expect(affinityOf("gpu")).toBe("none");
    const off = { id: "m", affinity: "none", deployments: [on("gpu"), on("cpu")] };
    expect(routesOf([off])[0]?.affinity).toBe("none");
  });
});
