import { checkPresent, ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";
import type { ModelDefinition } from "./model-definition.js";
import type { ModelStore, PullProgress, PullRequest, StoredModel } from "./model-store.js";

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
    throw new ServiceError("not_found", `No model is kept under the id '${id}'.`, { param: "id" });
  }
}
