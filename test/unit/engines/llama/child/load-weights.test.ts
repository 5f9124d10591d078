import { describe, expect, it } from "vitest";
import { loadWeights, type OpenBinding } from "../../../../../src/engines/llama/child/open-binding.js";
import type { ChildModel } from "../../../../../src/engines/llama/protocol/protocol.js";

class InsufficientMemoryError extends Error {}

/** A binding with a graphics card on which this many of 30 layers fit; null: even the buffers without layers do not fit. */
function bindingOn(gpu: "cuda" | false, fitting: number | null) {
  const asked: unknown[] = [];
  const llama = {
    gpu,
    async loadModel({ gpuLayers }: { gpuLayers?: number | { max?: number } }) {
      asked.push(gpuLayers);
      if (typeof gpuLayers === "object" && fitting === null) throw new InsufficientMemoryError("Not enough VRAM");
      const placed = typeof gpuLayers === "object" ? Math.min(fitting ?? 0, gpuLayers.max ?? 30) : 0;
      return { gpuLayers: placed, fileInsights: { totalLayers: 30 } };
    },
  };
  return { asked, open: { binding: { InsufficientMemoryError }, llama, unusable: [] } as unknown as OpenBinding };
}

const spec = { id: "m", path: "/m.gguf", kind: "chat", contextLength: 2_048, slots: 4, threads: 1 } as const;

function load({ open }: { open: OpenBinding }, gpuLayers: number | null) {
  const build = { gpus: ["cuda", false], packages: {}, gpuLayers, moduleDir: null } as const;
  const model: ChildModel = { ...spec, build };
  return loadWeights(open, model, () => {}).then(({ placement }) => placement);
}

describe("the layers of a model", () => {
  it("are placed on the graphics card as far as its memory also holds the contexts of all slots", async () => {
    const card = bindingOn("cuda", 22);
    expect(await load(card, null)).toEqual({ gpu: "cuda", gpuLayers: 22, layers: 30, unusable: [] });
    expect(card.asked).toEqual([{ min: 0, fitContext: { contextSize: 8_192, embeddingContext: false } }]);
  });

  it("on the card are at most the configured number, and fewer if its memory is too small", async () => {
    expect(await load(bindingOn("cuda", 22), 10)).toMatchObject({ gpuLayers: 10 });
    expect(await load(bindingOn("cuda", 5), 10)).toMatchObject({ gpuLayers: 5 });
  });

  it("run on the processor if the card has no memory left, if 0 layers are configured, and without a card", async () => {
    const onProcessor = { gpu: null, gpuLayers: 0, layers: 30, unusable: [] };
    const full = bindingOn("cuda", null);
    expect(await load(full, null)).toEqual(onProcessor);
    expect(full.asked.at(-1)).toBe(0);
    const forbidden = bindingOn("cuda", 30);
    expect(await load(forbidden, 0)).toEqual(onProcessor);
    expect(forbidden.asked).toEqual([0]);
    expect(await load(bindingOn(false, 30), null)).toEqual(onProcessor);
  });
});
