import { checkPresent, refuse, ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";
import type { ModelDefinition } from "./catalog-model.js";
import type { ModelPull, Pull } from "./model-pull.js";
import type { ModelPulls } from "./model-pulls.js";
import type { FoundModel, ImportRequest, ModelStore, PulledModel, PullRequest, StoredModel } from "./model-store.js";

export interface ModelAdminDeps {
  readonly store: ModelStore;
  readonly pulls: ModelPulls;
  readonly catalog: Catalog;
  /** Defines how to run a stored model. */
  readonly define: (model: StoredModel) => ModelDefinition;
  /** Whether this process may run stored models. False: several workers, none of which has the embedded engine. */
  readonly runsModels: boolean;
}

/** Maximum length of the words of a search. */
const searchCharsMax = 200;

/** Administration of models: the stored ones and those that the catalog offers. */
export class ModelAdmin {
  readonly #deps: ModelAdminDeps;

  constructor(deps: ModelAdminDeps) {
    this.#deps = deps;
  }

  list(): Promise<readonly StoredModel[]> {
    return this.#deps.store.list();
  }

  /**
   * Starts the pull of a model, which is then loaded, or joins one that runs. `record` is called when a pull that this call
   * started has succeeded.
   */
  pull(request: PullRequest, record: (model: StoredModel) => Promise<void>): Pull {
    this.#checkRuns();
    if (request.source === null && request.id === null) checkPresent(undefined, "source");
    return this.#deps.pulls.start(request, (pulled) => this.#finishPull(pulled, record));
  }

  /** Models that can be pulled, by words in their names. */
  search(words: string, signal: AbortSignal): Promise<readonly FoundModel[]> {
    const trimmed = words.trim();
    checkPresent(trimmed, "words");
    if (trimmed.length <= searchCharsMax) return this.#deps.store.search(trimmed, signal);
    return refuse("string_above_max_length", "words", `'words' may have at most ${searchCharsMax} characters.`);
  }

  pulls(): readonly ModelPull[] {
    return this.#deps.pulls.list();
  }

  /** Cancels the running pull of a model. Rejects with `not_found` when no pull of this model runs. */
  cancelPull(id: string): Promise<ModelPull> {
    checkPresent(id, "id");
    return this.#deps.pulls.cancel(id);
  }

  /** Resumes the pulls that an earlier process did not finish. */
  resumePulls(record: (model: StoredModel) => Promise<void>): Promise<void> {
    return this.#deps.pulls.resume((pulled) => this.#finishPull(pulled, record));
  }

  async #finishPull({ model }: PulledModel, record: (model: StoredModel) => Promise<void>): Promise<void> {
    await this.#load(model);
    await record(model);
  }

  async import(path: string, request: ImportRequest, signal: AbortSignal): Promise<StoredModel> {
    this.#checkRuns();
    checkPresent(path, "path");
    const model = await this.#deps.store.importFile(path, request, signal);
    await this.#load(model);
    return model;
  }

  async load(id: string): Promise<StoredModel> {
    this.#checkRuns();
    const model = await this.#require(id);
    await this.#load(model);
    return model;
  }

  async unload(id: string): Promise<StoredModel> {
    const model = await this.#require(id);
    await this.#deps.catalog.unload(id);
    return model;
  }

  async remove(id: string): Promise<StoredModel> {
    const model = await this.#require(id);
    await this.#deps.catalog.remove(id);
    await this.#deps.store.remove(id);
    return model;
  }

  /** Whether the model is in the catalog and loaded. */
  isLoaded(id: string): boolean {
    return this.#deps.catalog.all().some((model) => model.id === id && model.loaded !== null);
  }

  #checkRuns(): void {
    if (this.#deps.runsModels) return;
    const message = "This service has several workers, which cannot run models of the embedded engine.";
    throw new ServiceError("unsupported_parameter", `${message} Set server.workers to 1, or use an upstream server.`);
  }

  async #load(model: StoredModel): Promise<void> {
    const { caps, deployments } = await this.#deps.catalog.put(this.#deps.define(model));
    if (caps !== null) return;
    const cause = deployments.find((deployment) => deployment.failure !== null)?.failure;
    const message = `${model.id} is stored, but could not be loaded: ${cause?.message ?? "?"}`;
    throw new ServiceError("model_not_loaded", message, { cause, shouldRetry: false });
  }

  async #require(id: string): Promise<StoredModel> {
    checkPresent(id, "id");
    const model = await this.#deps.store.find(id);
    if (model !== null) return model;
    return refuse("not_found", "id", `No model with the id '${id}' is stored.`);
  }
}
