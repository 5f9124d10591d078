import { describe, expect, it } from "vitest";
import { fillCatalog } from "../../../src/app/compose/model-catalog.js";
import { configSchema } from "../../../src/app/config/schema.js";
import { ServiceError } from "../../../src/domain/call/service-error.js";
import { Catalog } from "../../../src/domain/catalog/catalog.js";
import { type Engine, EngineError } from "../../../src/domain/engine/engine.js";
import { openMemoryState } from "../../../src/state/embedded/memory-state.js";
import { noDrains } from "../../support/deployments.js";
import { FakeClock } from "../../support/fake-clock.js";
import { HandEngine } from "../../support/hand-engine.js";
import { silentLog } from "../../support/silent-log.js";

/** Fills the default catalog as at a first start. Loading the first chat model fails with this error. */
async function startWithout(cause: ServiceError) {
  const clock = new FakeClock();
  const catalog = new Catalog({
    clock,
    backgroundClock: clock,
    log: silentLog,
    store: openMemoryState().catalog,
    limits: { queueWaitMs: 30_000 },
    random: () => 0.5,
    drained: noDrains,
  });
  const hand = new HandEngine();
  const llama: Engine = {
    async load(spec) {
      if (spec.id === "qwen") throw new EngineError("model_not_loaded", cause.message, { cause });
      return await hand.load(spec);
    },
  };
  const { loaded } = await fillCatalog({
    catalog,
    engines: { llama, scripted: hand, openai: hand },
    modelStore: {
      list: async () => [],
      defaults: { chat: ["qwen", "smol"], embedding: "vectors" },
      idOf: (source) => source,
    },
    configured: { config: configSchema.parse({}), upstreams: [] },
    chatSource: null,
    log: silentLog,
  });
  await loaded;
  return new Map(catalog.all().map((model) => [model.id, model]));
}

describe("the default chat model", () => {
  it("is replaced by the small model if it cannot be downloaded, and is shown with the reason", async () => {
    const refused = new Error("connect ECONNREFUSED 127.0.0.1:1");
    const models = await startWithout(new ServiceError("upstream_error", "no hub", { cause: refused }));
    expect([...models.keys()]).toEqual(["qwen", "smol", "vectors"]);
    expect(models.get("qwen")?.replacedReason).toBe(
      "It cannot be downloaded, so the small model smol is used instead: connect ECONNREFUSED 127.0.0.1:1",
    );
    expect(models.get("smol")).toMatchObject({ hasFailed: false, replacedReason: null });
  });

  it("is shown as failed if its file is unusable, and the small model is used", async () => {
    const models = await startWithout(new ServiceError("invalid_value", "the file is damaged"));
    expect(models.get("qwen")).toMatchObject({ hasFailed: true, replacedReason: null });
    expect(models.get("smol")?.hasFailed).toBe(false);
  });
});
