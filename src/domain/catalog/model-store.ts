import { checkPresent, refuse, ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";
import type { ModelDefinition } from "./catalog-model.js";

/** A model whose verified file is stored on this machine. */
export interface StoredModel {
  /** Id in requests. */
  readonly id: string;
  /** Absolute path of the file. */
  readonly path: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
  /** Size of the file. */
  readonly bytes: number;
  /** Source, as given. */
  readonly source: string;
  readonly kind: "chat" | "embedding";
  /** Context length that it was trained for, in tokens. */
  readonly contextLength: number;
  /** License from the file; null if absent. */
  readonly license: string | null;
  readonly addedAtMs: number;
}

export interface PullRequest {
  /** `hf:`, `https:`, `pypi:` or `file:` source; null: any known source of the default model `id`. */
  readonly source: string | null;
  /** Null: derived from the source's file name. */
  readonly id: string | null;
  /** Expected SHA-256, lower-case hex; null if unknown. */
  readonly sha256: string | null;
}

export interface PullProgress {
  readonly receivedBytes: number;
  /** Null while unknown. */
  readonly totalBytes: number | null;
}

/**
 * Port of the models on this machine. Methods reject with ServiceError: `invalid_value` for an unusable source or file,
 * `upstream_error` for an unreachable source, `storage_unavailable` when the disk is full.
 */
export interface ModelStore {
  /** Ids of models that can be pulled by id alone. `chat`: in the order in which they are tried, smaller ones last. */
  readonly defaults: { readonly chat: readonly string[]; readonly embedding: string };
  /** Default id of a model from this source. */
  idOf(source: string): string;
  /** All stored models, ordered by id. */
  list(): Promise<readonly StoredModel[]>;
  /** Null for an unknown id. */
  find(id: string): Promise<StoredModel | null>;
  /** Downloads, verifies and stores; resolves at once if the model is there. `warnings` are for the operator. */
  pull(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<{ readonly model: StoredModel; readonly warnings: readonly string[] }>;
  /** Stores a copy of a GGUF file, of a wheel's model, or of the conversion of a folder with safetensors. */
  importFile(path: string, id: string | null, signal: AbortSignal): Promise<StoredModel>;
  /** Removes a model and, if no other model needs it, its file. Null for an unknown id. */
  remove(id: string): Promise<StoredModel | null>;
}

export interface ModelAdminDeps {
  readonly store: ModelStore;
  readonly catalog: Catalog;
  /** Defines how to run a stored model. */
  readonly define: (model: StoredModel) => ModelDefinition;
}

/** Administration of models: the stored ones and those that the catalog offers. */
export class ModelAdmin {
  readonly #deps: ModelAdminDeps;

  constructor(deps: ModelAdminDeps) {
    this.#deps = deps;
  }

  list(): Promise<readonly StoredModel[]> {
    return this.#deps.store.list();
  }

  /** Downloads a model and starts loading it. */
  async pull(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<{ readonly model: StoredModel; readonly warnings: readonly string[] }> {
    if (request.source === null && request.id === null) checkPresent(undefined, "source");
    const pulled = await this.#deps.store.pull(request, onProgress, signal);
    await this.#load(pulled.model);
    return pulled;
  }

  async import(path: string, id: string | null, signal: AbortSignal): Promise<StoredModel> {
    checkPresent(path, "path");
    const model = await this.#deps.store.importFile(path, id, signal);
    await this.#load(model);
    return model;
  }

  async load(id: string): Promise<StoredModel> {
    const model = await this.#require(id);
    await this.#load(model);
    return model;
  }

  async unload(id: string): Promise<StoredModel> {
    const model = await this.#require(id);
    await this.#deps.catalog.remove(id);
    return model;
  }

  async remove(id: string): Promise<StoredModel> {
    const model = await this.unload(id);
    await this.#deps.store.remove(id);
    return model;
  }

  /** Whether it is in the catalog and loaded. */
  isLoaded(id: string): boolean {
    return this.#deps.catalog.all().some((model) => model.id === id && model.caps !== null);
  }

  async #load(model: StoredModel): Promise<void> {
    const { caps, deployments } = await this.#deps.catalog.put(this.#deps.define(model));
    if (caps !== null) return;
    const cause = deployments.find((deployment) => deployment.failure !== null)?.failure;
    const message = `${model.id} is kept, but could not be loaded: ${cause?.message ?? "?"}`;
    throw new ServiceError("model_not_loaded", message, { cause });
  }

  async #require(id: string): Promise<StoredModel> {
    checkPresent(id, "id");
    const model = await this.#deps.store.find(id);
    if (model !== null) return model;
    return refuse("not_found", "id", `No model is kept under the id '${id}'.`);
  }
}
