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
  it("limits only the answers of the demonstration model, which often does not stop by itself", async () => {
    for (const { file, isDemonstration } of defaultChatModels) {
      const files = createModelFiles({ store: storeWith(file.sha256), pulls: noPulls, log: silentLog });
      const located = await files.locate({ id: "m", source: null, sha256: null }, () => {}, never);
      expect(located.answerTokens).toBe(isDemonstration ? 512 : undefined);
    }
  });
});
