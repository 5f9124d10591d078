import { fixedLimits } from "../contract/limits.js";
import { modelIdForm, modelIdWords } from "../contract/names.js";
import { ServiceError } from "../domain/call/service-error.js";
import type { FoundModel, ModelStore as ModelStorePort, StoredModel } from "../domain/catalog/model-store.js";
import { defaultChatModels, defaultEmbeddingModel, findDefaultSource } from "./default-models.js";
import { HttpClient, refusal } from "./download/http-client.js";
import { ModelFileError, SourceUnavailable } from "./files/model-files.js";
import type { ModelKind } from "./gguf/gguf-header.js";
import type { ModelPuller } from "./puller.js";
import { findShortName, matchingShortNames, type ShortName } from "./short-names.js";
import type { FoundRepository } from "./sources/hub-api.js";
import { findPip } from "./sources/pypi-source.js";
import { formatSource, InvalidSource, parseSource } from "./sources/source.js";
import type { PullOptions } from "./sources/source-fetcher.js";
import type { StoredModel as KeptModel, ModelStore } from "./store.js";
import { readUnfinishedPulls, writeUnfinishedPulls } from "./unfinished-pulls.js";

/** Context of a model whose file does not state one, in tokens. */
const unknownContextLength = 2_048;

/** Implements the domain's `ModelStorePort` with the models folder and the sources of models. */
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

    shownSource,

    unfinishedPulls: {
      read: () => readUnfinishedPulls(store.folder),
      write: (requests) =>
        writeUnfinishedPulls(
          store.folder,
          requests.filter(({ source }) => source === null || isStorable(source)),
        ),
    },

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

    async search(words, signal) {
      const repositories = await translated(puller.search(words, signal), "source");
      const known = matchingShortNames(words).map(toFoundShortName);
      return [...known, ...repositories.map(toFoundRepository)];
    },

    async pull({ source: given, id, sha256, isGuarded = false }, onProgress, signal) {
      if (given === null) {
        const known = findDefault(id);
        const model = await translated(puller.pullDefault(known, onProgress, signal), "source");
        return { model: toStored(model), warnings: [] };
      }
      const source = findShortName(given)?.source ?? given;
      const request = { source, id: checkedId(id ?? modelIdOf(given)), isGuarded, onProgress, signal };
      const pulled = await translated(puller.pull({ ...request, ...(sha256 === null ? {} : { sha256 }) }), "source");
      return { model: toStored(pulled.model), warnings: pulled.warnings };
    },

    async importFile(path, { id, isGuarded }, signal) {
      const imported = puller.importFile(path, checkedId(id ?? modelIdOf(path)), signal, isGuarded);
      return toStored(await translated(imported, "path"));
    },

    async remove(id) {
      // A model with a damaged file is not listed, but can be removed.
      const model = store.find(id) ?? store.damaged.find((damaged) => damaged.model.id === id)?.model;
      if (model === undefined) return null;
      await store.remove(id);
      return toStored(model);
    },
  };
}

/**
 * Id of a source's model: the short name, the default model's id, or an id from the file's name.
 * `hf:owner/repo/Some-Model-Q8_0.gguf@main` and `hf:owner/Some-Model-GGUF:Q8_0` give `some-model-q8_0`.
 */
function modelIdOf(source: string): string {
  const short = findShortName(source);
  if (short !== undefined) return short.name;
  const known = findDefaultSource(source);
  if (known !== undefined) return known.model.id;
  const [file = ""] = (/[^/]*(?=\/*$)/.exec(source)?.[0] ?? "").split(/[@?#]/);
  const id = file
    .replace(/-gguf(?=:)/i, "")
    .replace(/\.(gguf|whl|zip)$/i, "")
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-");
  return id.slice(0, fixedLimits.modelIdCharsMax) || "model";
}

function toFoundShortName({ name, kind, approximateBytes, license }: ShortName): FoundModel {
  const unknown = { downloads: null, likes: null, gated: false, quantizations: [] };
  return { source: name, kind, license, approximateBytes, ...unknown };
}

function toFoundRepository({ repository, ...found }: FoundRepository): FoundModel {
  const best = preferredQuantizations.find((name) => found.quantizations.includes(name)) ?? found.quantizations[0];
  const source = `hf:${repository}${best === undefined ? "" : `:${best}`}`;
  return { ...found, source, kind: null, approximateBytes: null };
}

/** Quantizations in order of preference: first those with good answers for their size, then nearly lossless ones. */
const preferredQuantizations: readonly string[] = ["Q4_K_M", "Q5_K_M", "Q8_0", "Q4_0", "F16"];

/** The source in the form in which it is stored; unchanged if it is not valid. */
function shownSource(source: string): string {
  try {
    return findShortName(source) === undefined ? formatSource(parseSource(source)) : source;
  } catch (error) {
    if (error instanceof InvalidSource) return source.slice(0, shownCharsMax);
    throw error;
  }
}

const shownCharsMax = 200;

/** Whether the source is valid and has no query, which could contain a signature. */
function isStorable(source: string): boolean {
  if (findShortName(source) !== undefined) return true;
  try {
    const parsed = parseSource(source);
    return parsed.kind !== "https" || formatSource(parsed) === parsed.url;
  } catch (error) {
    if (error instanceof InvalidSource) return false;
    throw error;
  }
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
    `No model is stored under the id '${id}', and it is not a default model: name a source.`,
    { param: "source" },
  );
}

/**
 * Converts failures of the store to errors for administrators, which contain the full message. `param` is the request field
 * with the unusable value.
 */
async function translated<T>(work: Promise<T>, param: "source" | "path"): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof SourceUnavailable) throw new ServiceError("upstream_error", cause.message, { cause });
    if (!(cause instanceof ModelFileError || cause instanceof InvalidSource)) throw cause;
    const isFull = cause instanceof ModelFileError && cause.fault === "no_space";
    if (isFull) throw new ServiceError("storage_unavailable", cause.message, { cause });
    throw new ServiceError("invalid_value", cause.message, { param, cause });
  }
}

/** The prerequisites of downloads, for diagnostics. */
export interface ModelSources {
  readonly hubEndpoint: string;
  /**
   * Requests the hub and returns the time in its answer, in milliseconds since 1970 with a precision of one second; null if
   * the answer has no date. Rejects with SourceUnavailable if the hub does not answer or refuses, or with the signal's reason.
   */
  askHub(signal: AbortSignal): Promise<number | null>;
  /** The command of pip; null if there is no pip. */
  findPip(): Promise<string | null>;
  /** The models that a first start fetches if all sources can be reached. `bytes`: length of the stored file. */
  readonly defaults: readonly { readonly id: string; readonly kind: ModelKind; readonly bytes: number }[];
}

export function createModelSources(options: PullOptions): ModelSources {
  const { hubEndpoint } = options;
  return {
    hubEndpoint,
    async askHub(signal) {
      const client = new HttpClient(options);
      try {
        const answer = await client.get({ url: new URL(hubEndpoint), headers: {}, signal });
        await answer.body.dump();
        // The hub or a proxy refused the request.
        if (answer.status >= 400) throw refusal(answer, "its first page");
        const atMs = Date.parse(String(answer.headers["date"]));
        return Number.isNaN(atMs) ? null : atMs;
      } finally {
        await client.close();
      }
    },
    async findPip() {
      const pip = await findPip(options.pipEnvironment["PATH"] ?? "");
      return pip === null ? null : [pip.command, ...pip.args].join(" ");
    },
    defaults: [...defaultChatModels.slice(0, 1), defaultEmbeddingModel].map(({ id, kind, file }) => ({
      id,
      kind,
      bytes: file.bytes,
    })),
  };
}
