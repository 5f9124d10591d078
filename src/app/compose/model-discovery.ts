import { isDeepStrictEqual } from "node:util";
import { pause } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { ModelDefinition } from "../../domain/catalog/catalog-model.js";
import type { DeploymentDefinition } from "../../domain/catalog/deployment.js";
import type { Engine } from "../../domain/engine/engine.js";
import type { ListedFacts, UpstreamDefinition, UpstreamModel } from "../../domain/engine/upstream.js";
import type { UpstreamSource } from "../../domain/upstreams/upstreams-in-use.js";
import { kindProfiles } from "../../engines/openai/protocol/kinds.js";
import { groupBy } from "../../lib/collections.js";
import { defaultAffinity, deploymentIds, takeId } from "../config/model-references.js";
import { queueOf } from "../config/model-routes.js";
import type { ModelSettings } from "../config/model-settings.js";
import { defaultContextLength, ownOrganisation } from "./model-catalog.js";
import { PolledList, type PolledListDeps } from "./polled-list.js";

/** How long `configure` waits for the first lists of new upstreams. */
const firstListsMs = 2_000;
/** Maximum number of ids in one log line. */
const loggedIdsMax = 20;

export interface ModelDiscoveryDeps extends PolledListDeps {
  readonly catalog: Pick<Catalog, "all" | "putAll" | "remove">;
  /** Engine that runs the discovered models. */
  readonly engine: Engine;
}

/**
 * Offers the models that upstreams list or that are named for them. Each has the id that the upstream uses; the same
 * id on several upstreams is one model with several deployments. Configured models and models that are stored on this machine
 * take precedence.
 */
export class ModelDiscovery {
  readonly #deps: ModelDiscoveryDeps;
  /** Upstreams in the order in which a model's deployments are listed. */
  #sources: readonly UpstreamSource[] = [];
  /** Lists of the upstreams that are polled, by the upstream's name. */
  #lists: ReadonlyMap<string, PolledList> = new Map();
  #configuredModels: ReadonlySet<string> = new Set();
  #configuredDeployments: ReadonlySet<string> = new Set();
  /** Discovered models by id that the catalog has, or will have when the running changes are done. */
  readonly #offered = new Map<string, ModelDefinition>();
  /** The last change of each model: changes of one model are made one after the other. */
  readonly #changes = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor(deps: ModelDiscoveryDeps) {
    this.#deps = deps;
  }

  /** The discovered models. */
  get models(): readonly ModelDefinition[] {
    return [...this.#offered.values()];
  }

  /**
   * Begins to list upstreams and stops listing others, whose models are removed. Unchanged upstreams keep their timers.
   * Resolves when the new and changed ones are listed for the first time and their models loaded, at most 2 s later.
   * `models` are the configured ones.
   */
  async configure(models: readonly ModelSettings[], sources: readonly UpstreamSource[]): Promise<void> {
    this.#configuredModels = new Set(models.map(({ id }) => id));
    this.#configuredDeployments = new Set(deploymentIds(models).flat());
    const former = this.#lists;
    const listed = sources.filter((source) => this.#isListed(source)).map(({ definition }) => definition);
    this.#sources = sources;
    this.#lists = new Map(listed.map((upstream) => [upstream.name, this.#listOf(upstream, former.get(upstream.name))]));
    this.refresh();
    const isKept = (list: PolledList): boolean => this.#lists.get(list.definition.name) === list;
    const closed = [...former.values()].filter((list) => !isKept(list)).map((list) => list.close());
    const isNew = (list: PolledList): boolean => former.get(list.definition.name) !== list;
    const begun = [...this.#lists.values()].filter(isNew).map((list) => list.begin());
    await Promise.all(closed);
    if (begun.length === 0 && this.#changes.size === 0) return;
    const waited = new AbortController();
    const offered = Promise.all(begun).then(() => Promise.all(this.#changes.values()));
    await Promise.race([offered, pause(this.#deps.clock, firstListsMs, waited.signal)]);
    waited.abort();
  }

  /** Applies changes of the lists to the catalog. Called after each list; unchanged models are not loaded again. */
  refresh(): void {
    if (this.#isClosed) return;
    const { catalog, log } = this.#deps;
    const wanted = this.#wanted();
    const present = new Map(catalog.all().map((model) => [model.id, model]));
    for (const id of this.#offered.keys()) {
      // The id belongs to a configured or pulled model, which takes precedence.
      const isStored = present.get(id)?.deployments.some(({ upstream }) => upstream === null) === true;
      if (isStored || this.#configuredModels.has(id)) this.#offered.delete(id);
    }
    const added = [...wanted.values()].filter(({ id }) => !this.#offered.has(id) && !present.has(id));
    const changed = [...wanted.values()].filter((definition) => {
      const offered = this.#offered.get(definition.id);
      return offered !== undefined && !isDeepStrictEqual(offered, definition);
    });
    const removed = [...this.#offered.keys()].filter((id) => !wanted.has(id));
    if (added.length > 0) this.#put(added);
    // Each model is added separately, so that it is used as soon as its own deployments are loaded.
    for (const definition of changed) this.#put([definition]);
    for (const id of removed) {
      this.#offered.delete(id);
      this.#change([id], () => catalog.remove(id, "finish"));
    }
    if (added.length + changed.length + removed.length === 0) return;
    const ids = (models: readonly { readonly id: string }[]) => models.slice(0, loggedIdsMax).map(({ id }) => id);
    const counts = { added: added.length, changed: changed.length, removed: removed.length };
    const named = [...ids(added), ...ids(changed), ...removed].slice(0, loggedIdsMax);
    log.info({ ...counts, models: named }, "the models of the upstreams changed");
  }

  /** Stops listing; the offered models stay. Resolves when the running changes are done and the connections closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#lists.values()].map((list) => list.close()));
    await Promise.all(this.#changes.values());
  }

  /** Why the last list of an upstream's models failed, for people; null if it succeeded or the upstream is not polled. */
  problemOf(upstream: string): string | null {
    return this.#lists.get(upstream)?.problem ?? null;
  }

  /** Returns the list of an upstream. A changed upstream keeps the models of its former list until it has answered. */
  #listOf(upstream: UpstreamDefinition, former: PolledList | undefined): PolledList {
    if (former !== undefined && isDeepStrictEqual(former.definition, upstream)) return former;
    return new PolledList(this.#deps, upstream, former?.models ?? new Map(), () => this.refresh());
  }

  #isListed({ definition, models }: UpstreamSource): boolean {
    const { name, kind, discoverMs } = definition;
    if (discoverMs === null || models.length > 0) return false;
    if (kindProfiles[kind].listsModels) return true;
    const isKnown = this.#sources.some((source) => source.definition === definition);
    const text = "this kind of upstream does not list its deployments: name them in models";
    if (!isKnown) this.#deps.log.warn({ upstream: name, kind }, text);
    return false;
  }

  /** Definitions of the models that the upstreams list, by id. */
  #wanted(): ReadonlyMap<string, ModelDefinition> {
    const found = this.#sources.flatMap((source) =>
      this.#modelsOf(source)
        .filter(([id]) => !this.#configuredModels.has(id))
        .map(([id, listed]): FoundDeployment => ({ id, source, listed })),
    );
    const taken = new Set(this.#configuredDeployments);
    const define = (id: string, deployments: readonly FoundDeployment[]): ModelDefinition => ({
      id,
      ownedBy: ownOrganisation,
      capabilities: null,
      prices: [],
      defaults: null,
      affinity: defaultAffinity(deployments.map(({ source }) => source.definition.kind)),
      fallbacks: [],
      deployments: deployments.map((deployment) => this.#deployment(id, deployment, taken)),
    });
    const byId = groupBy(found, ({ id }) => id);
    return new Map([...byId].map(([id, deployments]) => [id, define(id, deployments)]));
  }

  /** The models of an upstream with facts from its list; null for models that were named: the engine reads their facts. */
  #modelsOf({ definition, models }: UpstreamSource): readonly (readonly [string, ListedFacts | null])[] {
    if (models.length > 0) return models.map((id) => [id, null]);
    return [...(this.#lists.get(definition.name)?.models ?? [])].map(([id, { listed }]) => [id, listed]);
  }

  #deployment(model: string, { source, listed }: FoundDeployment, taken: Set<string>): DeploymentDefinition {
    const { definition: upstream, weight, priority, slots } = source;
    const unset = { passThrough: [], contextLength: null, capabilities: null };
    const options: UpstreamModel = { upstream, model, ...unset, ...(listed === null ? {} : { listed }) };
    return {
      engine: this.#deps.engine,
      id: takeId(`${upstream.name}/${model}`, taken),
      keepAliveMs: null,
      upstream: upstream.name,
      upstreamModel: model,
      contextLength: listed?.contextLength ?? defaultContextLength,
      ...queueOf(slots, undefined),
      weight,
      priority,
      prices: null,
      options,
    };
  }

  #put(definitions: readonly ModelDefinition[]): void {
    for (const definition of definitions) this.#offered.set(definition.id, definition);
    const ids = definitions.map(({ id }) => id);
    this.#change(ids, async () => {
      try {
        await this.#deps.catalog.putAll(definitions, "finish");
      } catch (error) {
        // The next list offers them again.
        for (const one of definitions) if (this.#offered.get(one.id) === one) this.#offered.delete(one.id);
        throw error;
      }
    });
  }

  #change(ids: readonly string[], change: () => Promise<unknown>): void {
    const done = Promise.all(ids.map((id) => this.#changes.get(id)))
      .then(change)
      .catch((err: unknown) => {
        const fields = { err, models: ids.slice(0, loggedIdsMax) };
        this.#deps.log.error(fields, "discovered models could not be changed");
      })
      .then(() => {
        for (const id of ids) if (this.#changes.get(id) === done) this.#changes.delete(id);
      });
    for (const id of ids) this.#changes.set(id, done);
  }
}

interface FoundDeployment {
  /** Id of the model. */
  readonly id: string;
  readonly source: UpstreamSource;
  readonly listed: ListedFacts | null;
}
