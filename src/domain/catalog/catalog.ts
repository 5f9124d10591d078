import type { ServiceLimits } from "../../contract/limits.js";
import type { Clock, Logger } from "../call/ports.js";
import { mayUseModel, type Principal } from "../call/principal.js";
import { invariant } from "../call/service-error.js";
import { CatalogModel } from "./catalog-model.js";
import { Deployment } from "./deployment.js";
import type { ModelDefinition, PriceList } from "./model-definition.js";

export interface CatalogDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly store: CatalogStore;
  readonly limits: Pick<ServiceLimits, "queueWaitMs">;
}

/** The models of the service, filtered by the rights of a principal. */
export class Catalog {
  readonly #deps: CatalogDeps;
  readonly #listeners = new Set<() => void>();
  #models: ReadonlyMap<string, CatalogModel> = new Map();
  #isComplete = true;

  constructor(deps: CatalogDeps) {
    this.#deps = deps;
  }

  /** Whether a missing model does not exist. During the start it may still be on its way. */
  get isComplete(): boolean {
    return this.#isComplete;
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

  /** Models that the principal may use, by id, without those that failed to load (MODEL-9, KEY-8). */
  visibleTo(principal: Principal): readonly CatalogModel[] {
    return this.all().filter((model) => mayUseModel(principal, model.id) && !model.hasFailed);
  }

  /** The model, or null when it does not exist or the principal may not use it: a caller cannot tell which (GEN-13). */
  find(id: string, principal: Principal): CatalogModel | null {
    const model = this.#models.get(id);
    return model !== undefined && mayUseModel(principal, id) ? model : null;
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
  async replace(definitions: readonly ModelDefinition[], unchanged: ReadonlySet<string> = new Set()): Promise<void> {
    const kept = new Set(definitions.map((definition) => definition.id));
    const gone = [...this.#models.keys()].filter((id) => !kept.has(id));
    const stays = (id: string): boolean => unchanged.has(id) && this.#models.get(id)?.hasFailed === false;
    const opened = await this.#open(definitions.filter(({ id }) => !stays(id)));
    await Promise.all(opened.map((model) => this.#takeOver(model)));
    await Promise.all(gone.map((id) => this.remove(id)));
  }

  /** Adds or replaces a model. Resolves when it is loaded or has failed. */
  async put(definition: ModelDefinition): Promise<CatalogModel> {
    const opened = await this.#open([definition]);
    await Promise.all(opened.map((model) => this.#takeOver(model)));
    const model = this.#models.get(definition.id) ?? opened[0];
    invariant(model !== undefined, "one definition makes one model");
    return model;
  }

  /** Changes prices by model id without reloading. Unknown ids are ignored. */
  reprice(pricesById: ReadonlyMap<string, PriceList>): void {
    for (const [id, prices] of pricesById) this.#models.get(id)?.reprice(prices);
  }

  /** Prices of a model; null for an unknown id. */
  pricesOf(id: string): Pick<CatalogModel, "prices"> | null {
    return this.#models.get(id) ?? null;
  }

  /** Removes a model; its running requests finish. False for an unknown id. */
  async remove(id: string): Promise<boolean> {
    const model = this.#models.get(id);
    if (model === undefined) return false;
    this.#change((models) => models.delete(id));
    await retire(model);
    return true;
  }

  /** Starts loading models. New ids are listed at once, so that their requests wait. */
  async #open(definitions: readonly ModelDefinition[]): Promise<readonly CatalogModel[]> {
    const nowMs = this.#deps.clock.now();
    const ids = definitions.map((definition) => definition.id);
    const createdAtMs = await this.#deps.store.firstSeen(ids, nowMs);
    const opened = definitions.map((definition, i) => this.#openOne(definition, createdAtMs[i] ?? nowMs));
    this.#change((models) => {
      for (const model of opened) if (!models.has(model.id)) models.set(model.id, model);
    });
    return opened;
  }

  #openOne(definition: ModelDefinition, createdAtMs: number): CatalogModel {
    const deployments = definition.deployments.map(
      (deployment, position) => new Deployment(this.#deps, definition.id, position, deployment),
    );
    return new CatalogModel(definition, createdAtMs, deployments);
  }

  /** Switches to the new model once it is loaded; until then, and if loading fails, the old one answers. */
  async #takeOver(model: CatalogModel): Promise<void> {
    await Promise.all(model.deployments.map((deployment) => deployment.loadEnded));
    const old = this.#models.get(model.id);
    if (old === model) return this.#change(() => {});
    const loaded = model.caps !== null;
    if (!loaded && old !== undefined) {
      this.#deps.log.error({ model: model.id }, "new version of a model failed to load; the previous one stays in use");
    }
    if (loaded && old !== undefined) {
      this.#change((models) => models.set(model.id, model));
      await retire(old);
    } else {
      await retire(model);
    }
  }

  #change(edit: (models: Map<string, CatalogModel>) => void): void {
    const models = new Map(this.#models);
    edit(models);
    this.#models = new Map([...models].sort(([a], [b]) => (a < b ? -1 : 1)));
    for (const changed of [...this.#listeners]) changed();
  }
}

async function retire(model: CatalogModel): Promise<void> {
  await Promise.all(model.deployments.map((deployment) => deployment.retire()));
}

/** Port that stores when each model id first became available, so that `created` survives restarts (MODEL-2). */
export interface CatalogStore {
  /** Stores `nowMs` for new ids and returns the time of each, in the order of the ids. */
  firstSeen(ids: readonly string[], nowMs: number): Promise<readonly number[]>;
}
