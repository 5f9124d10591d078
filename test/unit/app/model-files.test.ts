import { describe, expect, it } from "vitest";
import { createModelFiles } from "../../../src/app/compose/model-store.js";
import type { ModelStore, StoredModel } from "../../../src/domain/catalog/model-store.js";
import { defaultChatModels } from "../../../src/model-store/default-models.js";
import { silentLog } from "../../support/silent-log.js";

const never = new AbortController().signal;

/** A store that has only this model. */
function storeWith(sha256: string): ModelStore {
  const model = { path: "/models/m.gguf", kind: "chat", contextLength: 4096, sha256, source: "" } as StoredModel;
  return { find: async () => model } as unknown as ModelStore;
}

const noPulls = { download: () => Promise.reject(new Error("nothing is downloaded")) };

describe("the file of a model", () => {
  it("comes with default request options if it is a built-in model, and without any otherwise", async () => {
    const locate = async (sha256: string) => {
      const files = createModelFiles({ store: storeWith(sha256), pulls: noPulls, log: silentLog });
      return (await files.locate({ id: "m", source: null, sha256: null }, () => {}, never)).defaults;
    };
    for (const { file, isDemonstration, defaults } of defaultChatModels) {
      expect(await locate(file.sha256)).toEqual(defaults);
      expect(defaults.maxTokens).toBe(isDemonstration ? 256 : null);
    }
    expect(await locate("0".repeat(64))).toBeUndefined();
  });
});
