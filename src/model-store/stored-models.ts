import { fixedLimits } from "../contract/limits.js";
import { modelIdForm, modelIdWords } from "../contract/names.js";
import { ServiceError } from "../domain/call/service-error.js";
import type { ModelStore as ModelStorePort, PullProgress, StoredModel } from "../domain/catalog/model-store.js";
import { defaultChatModels, defaultEmbeddingModel, findDefaultSource } from "./default-models.js";
import { ModelFileError, SourceUnavailable } from "./files/model-errors.js";
import type { StoredModel as KeptModel } from "./index-file.js";
import type { ModelPuller, PullProgress as PullerProgress } from "./puller.js";
import { InvalidSource } from "./sources/source.js";
import type { ModelStore } from "./store.js";

/** Tokens of a model whose file does not say for how many it was trained. */
const unknownContextLength = 2_048;

/** The models folder and its sources as the domain's port. */
export function createStoredModels(store: ModelStore, puller: ModelPuller): ModelStorePort {
  const toStored = (model: KeptModel): StoredModel => ({
    id: model.id,
    path: store.path(model),
    sha256: model.sha256,
    bytes: model.bytes,
    source: model.source,
    kind: model.kind,
    contextLength: model.contextLength ?? unknownContextLength,
    license: model.license,
    addedAtMs: model.addedAtMs,
  });

  return {
    defaults: { chat: defaultChatModels.map(({ id }) => id), embedding: defaultEmbeddingModel.id },

    idOf: modelIdOf,

    async list() {
      return store
        .list()
        .map(toStored)
        .sort((a, b) => (a.id < b.id ? -1 : 1));
    },

    async find(id) {
      const model = store.find(id);
      return model === undefined ? null : toStored(model);
    },

    async pull({ source, id, sha256 }, onProgress, signal) {
      const report = reporter(onProgress);
      if (source === null) {
        const known = findDefault(id);
        const model = await translated(puller.pullDefault(known, report, signal), "source");
        return { model: toStored(model), warnings: [] };
      }
      const request = { source, id: checkedId(id ?? modelIdOf(source)), onProgress: report, signal };
      const pulled = await translated(puller.pull({ ...request, ...(sha256 === null ? {} : { sha256 }) }), "source");
      return { model: toStored(pulled.model), warnings: pulled.warnings };
    },

    async importFile(path, id, signal) {
      return toStored(await translated(puller.importFile(path, checkedId(id ?? modelIdOf(path)), signal), "path"));
    },

    async remove(id) {
      // One whose file was damaged is not listed any more, but can still be removed.
      const model = store.find(id) ?? store.damaged.find((damaged) => damaged.model.id === id)?.model;
      if (model === undefined) return null;
      await store.remove(id);
      return toStored(model);
    },
  };
}

/**
 * A name for requests: the default model's own for one of its sources, else made of the file's name:
 * `hf:owner/repo/Some-Model-Q8_0.gguf@main` is `some-model-q8_0`.
 */
function modelIdOf(source: string): string {
  const known = findDefaultSource(source);
  if (known !== undefined) return known.model.id;
  const [file = ""] = (
    source
      .split("/")
      .filter((part) => part !== "")
      .at(-1) ?? ""
  ).split(/[@?#]/);
  const id = file
    .replace(/\.(gguf|whl|zip)$/i, "")
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-");
  return id.slice(0, fixedLimits.modelIdCharsMax) || "model";
}

function checkedId(id: string): string {
  if (modelIdForm.test(id)) return id;
  throw new ServiceError("invalid_value", `'id' must be ${modelIdWords}.`, { param: "id" });
}

function findDefault(id: string | null) {
  const known = [...defaultChatModels, defaultEmbeddingModel].find((model) => model.id === id);
  if (known !== undefined) return known;
  throw new ServiceError(
    "not_found",
    `No model is kept under the id '${id}', and it is none of the default models: name a source.`,
    { param: "source" },
  );
}

/** While a file is converted nothing comes in any more, and there is no share to tell. */
function reporter(onProgress: (progress: PullProgress) => void): (progress: PullerProgress) => void {
  return ({ stage, receivedBytes, totalBytes }) => {
    if (stage === "fetching") onProgress({ receivedBytes, totalBytes });
  };
}

/**
 * The store's own failures as what an administrator may be told: all of it. `param` is the field of the request that named
 * what could not be used.
 */
async function translated<T>(work: Promise<T>, param: "source" | "path"): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof InvalidSource) {
      throw new ServiceError("invalid_value", cause.message, { param, cause });
    }
    if (cause instanceof SourceUnavailable) throw new ServiceError("upstream_error", cause.message, { cause });
    if (!(cause instanceof ModelFileError)) throw cause;
    if (cause.fault === "no_space") throw new ServiceError("storage_unavailable", cause.message, { cause });
    throw new ServiceError("invalid_value", cause.message, { param, cause });
  }
}
