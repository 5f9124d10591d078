import { AbortSource } from "../../lib/abort-source.js";
import { pause } from "../call/ports.js";
import { mayUseModel, type Principal } from "../call/principal.js";
import { invariant, ServiceError } from "../call/service-error.js";
import type { Capability, LiveSettings, ModelDefinition } from "./catalog-model.js";
import { CatalogModel } from "./catalog-model.js";
import type { Deployment, DeploymentDeps } from "./deployment.js";
import type { DrainedDeployments } from "./drained-deployments.js";
import { HealthChecks } from "./health-checks.js";

export interface CatalogDeps extends Omit<DeploymentDeps, "healthChecks"> {
  readonly drained: Pick<DrainedDeployments, "has" | "onChange">;
  readonly store: CatalogStore;
}

/**
 * How a replaced or removed model is unloaded. `unload`: immediately, with a grace period for running requests; the caller
 * waits for it. `finish`: in the background, when all of its requests have ended, including those that wait for a slot.
 */
type Former = "unload" | "finish";

/**
 * Interval of checks whether a former model still has requests. The first check is that late because requests that have just
 * looked up the model are not counted yet.
 */
const finishEveryMs = 1_000;

/** Retry-After while the service starts. */
const startingRetryMs = 1_000;

/** The models of the service, filtered by the rights of a principal. */
export class Catalog {
  readonly #deps: CatalogDeps & DeploymentDeps;
  readonly #listeners = new Set<() => void>();
  #models: ReadonlyMap<string, CatalogModel> = new Map();
  /** Former models that still have requests, each with a promise of its unload. */
  readonly #finishing = new Map<CatalogModel, Promise<void>>();
  readonly #closing = new AbortSource();
  /** Ids of models that an administrator unloaded: requests of them get 503 instead of 404 until the model is loaded or removed. */
  readonly #unloaded = new Set<string>();
  /** False during the start, while models are being listed: an unknown model may then still be added. */
  #isComplete = true;

  constructor(deps: CatalogDeps) {
    this.#deps = { ...deps, healthChecks: new HealthChecks(deps.backgroundClock, deps.log) };
    deps.drained.onChange(() => {
      for (const { deployments } of [...this.all(), ...this.#finishing.keys()]) {
        for (const deployment of deployments) deployment.drainsChanged();
      }
    });
  }

  /** Marks the catalog incomplete until the returned function is called. */
  beginListing(): () => void {
    this.#isComplete = false;
    return () => {
      this.#isComplete = true;
    };
  }

  /** All models, by id. */
  all(): readonly CatalogModel[] {
    return [...this.#models.values()];
  }

  /** All models, by id, without a copy of the list. */
  each(): Iterable<CatalogModel> {
    return this.#models.values();
  }

  /** Number of models. */
  get size(): number {
    return this.#models.size;
  }

  /** The deployments of all models. */
  deployments(): readonly Deployment[] {
    return this.all().flatMap(({ deployments }) => deployments);
  }

  /** Models that the principal may use, by id, without those that failed to load (MODEL-9, KEY-8). */
  visibleTo(principal: Principal): readonly CatalogModel[] {
    const mayUseAll = principal.kind !== "api_key" || principal.models.length === 0;
    return this.all().filter((model) => (mayUseAll || mayUseModel(principal, model.id)) && !model.hasFailed);
  }

  /** The model, or null when it does not exist or the principal may not use it: a caller cannot tell which (GEN-13). */
  find(id: string, principal: Principal): CatalogModel | null {
    const model = this.#models.get(id);
    return model !== undefined && mayUseModel(principal, id) ? model : null;
  }

  /**
   * Returns the model, or throws the same 404 for an unknown model and one that the key may not use (ERR-5, MODEL-7), and 503
   * for one that an administrator unloaded (ERR-24).
   */
  require(id: string, principal: Principal): CatalogModel {
    const model = this.find(id, principal);
    if (model !== null) return model;
    if (!this.#isComplete) {
      throw new ServiceError("model_loading", "The service is starting: not all of its models are listed yet.", {
        retryAfterMs: startingRetryMs,
      });
    }
    if (this.#unloaded.has(id) && mayUseModel(principal, id)) {
      const message = `The model '${id}' was unloaded by an administrator. It can be used once it is loaded again.`;
      throw new ServiceError("model_not_loaded", message, { param: "model", shouldRetry: false });
    }
    throw new ServiceError(
      "model_not_found",
      `The model '${id}' does not exist or you do not have access to it. The list of models shows yours.`,
      { param: "model" },
    );
  }

  /** Subscribes to changes; returns the function that unsubscribes. */
  onChange(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /**
   * Replaces all models by these. Those whose ids are in `unchanged` are not loaded again unless they had failed.
   * Resolves when all are loaded or have failed; requests that run on a removed model finish there.
   */
  async replace(
    definitions: readonly ModelDefinition[],
    unchanged: ReadonlySet<string> = new Set(),
    former: Former = "unload",
  ): Promise<void> {
    const listed = new Set(definitions.map((definition) => definition.id));
    const removed = [...this.#models.keys()].filter((id) => !listed.has(id));
    const stays = (id: string): boolean => unchanged.has(id) && this.#models.get(id)?.hasFailed === false;
    await this.putAll(
      definitions.filter(({ id }) => !stays(id)),
      former,
    );
    await Promise.all(removed.map((id) => this.remove(id, former)));
  }

  /** Whether the service is stopping: models that are added now are not used. */
  get isClosed(): boolean {
    return this.#closing.aborted;
  }

  /** Removes all models and unloads them, also former ones. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the catalog is closed"));
    await this.replace([]);
    await Promise.all(this.#finishing.values());
  }

  /** Adds or replaces a model. Resolves when it is loaded or has failed. */
  async put(definition: ModelDefinition): Promise<CatalogModel> {
    const [opened] = await this.putAll([definition]);
    invariant(opened !== undefined, "one definition yields one model");
    return this.#models.get(definition.id) ?? opened;
  }

  /** Adds or replaces several models with one call to the store. Resolves when all are loaded or have failed. */
  async putAll(definitions: readonly ModelDefinition[], former: Former = "unload"): Promise<readonly CatalogModel[]> {
    const opened = await this.#open(definitions);
    await Promise.all(opened.map((model) => this.#takeOver(model, former)));
    return opened;
  }

  /** Changes models by id without reloading them. Unknown ids are ignored. */
  revise(settingsById: ReadonlyMap<string, LiveSettings>): void {
    for (const [id, settings] of settingsById) this.#models.get(id)?.revise(settings);
  }

  /** Prices of a model; null for an unknown id. */
  pricesOf(id: string): Pick<CatalogModel, "prices"> | null {
    return this.#models.get(id) ?? null;
  }

  /** Removes a model whose id stays known; its running requests finish. Nothing happens for an unknown id. */
  async unload(id: string): Promise<void> {
    if (!this.#models.has(id)) return;
    const removed = this.remove(id);
    this.#unloaded.add(id);
    await removed;
  }

  /** Removes a model; its running requests finish. False for an unknown id. */
  async remove(id: string, former: Former = "unload"): Promise<boolean> {
    this.#unloaded.delete(id);
    const model = this.#models.get(id);
    if (model === undefined) return false;
    this.#change((models) => models.delete(id));
    await this.#retire(model, former);
    return true;
  }

  /** Starts loading models. New ids are listed immediately, so that their requests wait. */
  async #open(definitions: readonly ModelDefinition[]): Promise<readonly CatalogModel[]> {
    const nowMs = this.#deps.clock.now();
    const ids = definitions.map((definition) => definition.id);
    const createdAtMs = await this.#deps.store.firstSeen(ids, nowMs);
    const opened = definitions.map((definition, i) => {
      return new CatalogModel(this.#deps, definition, createdAtMs[i] ?? nowMs);
    });
    for (const id of ids) this.#unloaded.delete(id);
    this.#change((models) => {
      for (const model of opened) if (!models.has(model.id)) models.set(model.id, model);
    });
    return opened;
  }

  /** Switches to the new model once it is loaded; until then, and if loading fails, the old one answers. */
  async #takeOver(model: CatalogModel, former: Former): Promise<void> {
    await Promise.all(model.deployments.map((deployment) => deployment.loadEnded));
    const old = this.#models.get(model.id);
    if (old === model) return this.#notify();
    const loaded = model.caps !== null;
    if (!loaded && old !== undefined) {
      this.#deps.log.error({ model: model.id }, "new version of a model failed to load; the previous one stays in use");
    }
    if (loaded && old !== undefined) this.#change((models) => models.set(model.id, model));
    await this.#retire(loaded && old !== undefined ? old : model, former);
  }

  async #retire(model: CatalogModel, former: Former): Promise<void> {
    if (former === "unload") return await retire(model);
    const onError = (err: unknown): void => {
      this.#deps.log.error({ err, model: model.id }, "a former model could not be unloaded");
    };
    const finished = this.#finish(model).catch(onError);
    this.#finishing.set(model, finished);
    void finished.then(() => this.#finishing.delete(model));
  }

  /** Unloads a former model once it has no requests. The deadlines of its requests bound the wait. */
  async #finish(model: CatalogModel): Promise<void> {
    const { room } = model;
    const { backgroundClock } = this.#deps;
    do await pause(backgroundClock, finishEveryMs, this.#closing);
    while (!this.#closing.aborted && room.busy + room.waiting > 0);
    await retire(model);
  }

  #change(edit: (models: Map<string, CatalogModel>) => void): void {
    const models = new Map(this.#models);
    edit(models);
    const hasNew = models.size > this.#models.size;
    // A replaced model keeps its place.
    this.#models = hasNew ? new Map([...models].sort(([a], [b]) => (a < b ? -1 : 1))) : models;
    this.#notify();
  }

  #notify(): void {
    for (const changed of [...this.#listeners]) changed();
  }
}

async function retire(model: CatalogModel): Promise<void> {
  await Promise.all(model.deployments.map((deployment) => deployment.retire()));
}

/**
 * Throws if the model does not have the capability, as for chat with an embedding model (GEN-13). A model that is not loaded
 * is checked later.
 */
export function requireCapability({ id, capabilities }: CatalogModel, capability: Capability): void {
  if (capabilities.length === 0 || capabilities.includes(capability)) return;
  const message = `The model '${id}' does not do ${capability}; it can be used for ${capabilities.join(", ")}.`;
  throw new ServiceError("model_not_supported", message, { param: "model" });
}

/** Port that stores when each model id first became available, so that `created` survives restarts (MODEL-2). */
export interface CatalogStore {
  /** Stores `nowMs` for new ids and returns the time of each, in the order of the ids. */
  firstSeen(ids: readonly string[], nowMs: number): Promise<readonly number[]>;
}
