import { mayUseModel, type Principal } from "../access/principal.js";
import type { Clock, Logger } from "../ports.js";
import { CatalogModel } from "./catalog-model.js";
import type { CatalogStore } from "./catalog-store.js";
import { Deployment } from "./deployment.js";
import type { ModelDefinition } from "./model-definition.js";

export interface CatalogDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly store: CatalogStore;
  readonly queueWaitMs: number;
}

/** Which models there are, and who may see them. */
export class Catalog {
  readonly #deps: CatalogDeps;
  readonly #listeners = new Set<() => void>();
  #models: ReadonlyMap<string, CatalogModel> = new Map();

  constructor(deps: CatalogDeps) {
    this.#deps = deps;
  }

  /** All models, by id. */
  all(): readonly CatalogModel[] {
    return [...this.#models.values()];
  }

  /** The models that the principal may use, by id (MODEL-9, KEY-8). */
  visibleTo(principal: Principal): readonly CatalogModel[] {
    return this.all().filter((model) => mayUseModel(principal, model.id));
  }

  /** The model, or null when it does not exist or the principal may not use it: a caller cannot tell which (GEN-13). */
  find(id: string, principal: Principal): CatalogModel | null {
    const model = this.#models.get(id);
    return model !== undefined && mayUseModel(principal, id) ? model : null;
  }

  /** Calls `changed` after every change of the catalog until the returned function is called. */
  onChange(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /**
   * Puts these models in the place of all there are. New ones load first and the old ones keep answering until then;
   * requests that run on an old one finish there.
   */
  async replace(definitions: readonly ModelDefinition[]): Promise<void> {
    const sorted = [...definitions].sort((a, b) => (a.id < b.id ? -1 : 1));
    const createdAtMs = await this.#deps.store.firstSeen(
      sorted.map((definition) => definition.id),
      this.#deps.clock.now(),
    );
    const models = sorted.map((definition, i) => this.#open(definition, createdAtMs[i] ?? this.#deps.clock.now()));
    const old = this.#models;
    const next = new Map(models.map((model) => [model.id, model]));
    if (old.size === 0) this.#swap(next);
    await Promise.all(models.flatMap((model) => model.deployments.map((deployment) => deployment.loadEnded)));
    this.#swap(next);
    await Promise.all([...old.values()].flatMap((model) => model.deployments.map((deployment) => deployment.retire())));
  }

  #open(definition: ModelDefinition, createdAtMs: number): CatalogModel {
    const deployments = definition.deployments.map(
      (deployment, position) => new Deployment(this.#deps, definition.id, position, deployment),
    );
    return new CatalogModel(definition, createdAtMs, deployments);
  }

  #swap(models: ReadonlyMap<string, CatalogModel>): void {
    this.#models = models;
    for (const changed of [...this.#listeners]) changed();
  }
}
