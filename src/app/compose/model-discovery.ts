import { isDeepStrictEqual } from "node:util";
import { modelIdForm } from "../../contract/names.js";
import { type Clock, type Logger, pause } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { ModelDefinition } from "../../domain/catalog/catalog-model.js";
import type { DeploymentDefinition } from "../../domain/catalog/deployment.js";
import { type Engine, EngineError } from "../../domain/engine/engine.js";
import type { ListedFacts, UpstreamDefinition, UpstreamModel } from "../../domain/engine/upstream.js";
import { Upstream } from "../../engines/openai/connection/upstream.js";
import { type DiscoveredModel, discoverModels } from "../../engines/openai/discovery.js";
import { openAiEngine } from "../../engines/openai/openai-engine.js";
import { kindProfiles } from "../../engines/openai/protocol/kinds.js";
import { AbortSource } from "../../lib/abort-source.js";
import { defaultAffinity, deploymentIds, takeId } from "../config/model-references.js";
import { queueOf } from "../config/model-routes.js";
import { type ConfiguredModels, defaultContextLength, ownOrganisation } from "./model-catalog.js";

/** How long `configure` waits for the first lists of new upstreams. */
const firstListsMs = 2_000;
/** Delay of the next list after a failed one; doubles up to the maximum. */
const retryMs = 1_000;
const retryMaxMs = 60_000;
/** Delays vary by this share in both directions, so that replicas do not list at the same moment. */
const jitterShare = 0.1;
/** Successful lists in a row without a model after which it is gone: a server may list no model while it restarts. */
const missesMax = 2;
/** Ids in one line of the log. */
const loggedIdsMax = 20;

export interface ModelDiscoveryDeps {
  readonly catalog: Pick<Catalog, "all" | "putAll" | "remove">;
  /** Runs the discovered models. */
  readonly engine: Engine;
  readonly clock: Clock;
  /** Numbers from 0 to below 1. */
  readonly random: () => number;
  readonly log: Logger;
}

/**
 * Offers the models that upstreams list. Each has the id of its upstream; the same id on several upstreams is one model
 * with several deployments. Configured models, and those stored on this machine, take precedence.
 */
export class ModelDiscovery {
  readonly #deps: ModelDiscoveryDeps;
  /** In the order of the configuration, which is the order of deployments. */
  #lists: readonly PolledList[] = [];
  #configuredModels: ReadonlySet<string> = new Set();
  #configuredDeployments: ReadonlySet<string> = new Set();
  /** What the catalog has, or receives when the running changes are done. */
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
   */
  async configure({ config, upstreams }: ConfiguredModels): Promise<void> {
    const models = config.models ?? [];
    this.#configuredModels = new Set(models.map(({ id }) => id));
    this.#configuredDeployments = new Set(deploymentIds(models).flat());
    const former = this.#lists;
    this.#lists = upstreams
      .filter((upstream) => this.#isListed(upstream))
      .map((upstream) => {
        const same = former.find(({ definition }) => definition.name === upstream.name);
        if (same !== undefined && isDeepStrictEqual(same.definition, upstream)) return same;
        // Until the changed upstream has answered, its former list counts.
        return new PolledList(this.#deps, upstream, same?.models ?? new Map(), () => this.refresh());
      });
    this.refresh();
    const closed = former.filter((list) => !this.#lists.includes(list)).map((list) => list.close());
    const begun = this.#lists.filter((list) => !former.includes(list)).map((list) => list.begin());
    await Promise.all(closed);
    if (begun.length === 0) return;
    const waited = new AbortController();
    const offered = Promise.all(begun).then(() => Promise.all(this.#changes.values()));
    await Promise.race([offered, pause(this.#deps.clock, firstListsMs, waited.signal)]);
    waited.abort();
  }

  /** Brings the catalog in step with the lists. Called after each list; models that did not change are left alone. */
  refresh(): void {
    if (this.#isClosed) return;
    const { catalog, log } = this.#deps;
    const wanted = this.#wanted();
    const present = new Map(catalog.all().map((model) => [model.id, model]));
    for (const id of this.#offered.keys()) {
      // The operator has configured the id, or has pulled a model with it.
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
    // One by one: each waits for the running requests of its former deployments.
    for (const definition of changed) this.#put([definition]);
    for (const id of removed) {
      this.#offered.delete(id);
      this.#change([id], () => catalog.remove(id));
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
    await Promise.all(this.#lists.map((list) => list.close()));
    await Promise.all(this.#changes.values());
  }

  #isListed({ name, kind, discoverMs }: UpstreamDefinition): boolean {
    if (discoverMs === null || kindProfiles[kind].listsModels) return discoverMs !== null;
    const fields = { upstream: name, kind };
    this.#deps.log.warn(fields, "this kind of upstream does not list its deployments: name them in models");
    return false;
  }

  /** Definitions of what the upstreams list, by id. */
  #wanted(): ReadonlyMap<string, ModelDefinition> {
    const found = new Map<string, FoundDeployment[]>();
    for (const { definition: upstream, models } of this.#lists) {
      for (const [id, { listed }] of models) {
        if (this.#configuredModels.has(id)) continue;
        const deployments = found.get(id);
        if (deployments === undefined) found.set(id, [{ upstream, listed }]);
        else deployments.push({ upstream, listed });
      }
    }
    const taken = new Set(this.#configuredDeployments);
    const define = (id: string, deployments: readonly FoundDeployment[]): ModelDefinition => ({
      id,
      ownedBy: ownOrganisation,
      capabilities: null,
      prices: [],
      defaults: null,
      affinity: defaultAffinity(deployments.map(({ upstream }) => upstream.kind)),
      fallbacks: [],
      deployments: deployments.map((deployment) => this.#deployment(id, deployment, taken)),
    });
    return new Map([...found].map(([id, deployments]) => [id, define(id, deployments)]));
  }

  #deployment(model: string, { upstream, listed }: FoundDeployment, taken: Set<string>): DeploymentDefinition {
    const unset = { passThrough: [], contextLength: null, capabilities: null };
    const options: UpstreamModel = { upstream, model, listed, ...unset };
    return {
      engine: this.#deps.engine,
      id: takeId(`${upstream.name}/${model}`, taken),
      upstream: upstream.name,
      contextLength: listed.contextLength ?? defaultContextLength,
      ...queueOf(openAiEngine.defaults.slots, undefined),
      weight: 1,
      priority: 0,
      prices: null,
      options,
    };
  }

  #put(definitions: readonly ModelDefinition[]): void {
    for (const definition of definitions) this.#offered.set(definition.id, definition);
    const ids = definitions.map(({ id }) => id);
    this.#change(ids, async () => {
      try {
        await this.#deps.catalog.putAll(definitions);
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
  readonly upstream: UpstreamDefinition;
  readonly listed: ListedFacts;
}

/** A model of the last lists. */
interface ListedModel {
  readonly listed: ListedFacts;
  /** Successful lists in a row without it. */
  misses: number;
}

/** The models of one upstream, listed at its interval. A failed list changes nothing. */
class PolledList {
  readonly definition: UpstreamDefinition;
  /** By id. */
  readonly models: Map<string, ListedModel>;
  readonly #deps: ModelDiscoveryDeps;
  readonly #onList: () => void;
  readonly #upstream: Upstream;
  readonly #stop = new AbortSource();
  #cancelTimer = (): void => {};
  #failures = 0;
  #unusable = 0;

  /** `onList` is called after each successful list. */
  constructor(
    deps: ModelDiscoveryDeps,
    definition: UpstreamDefinition,
    models: ReadonlyMap<string, ListedModel>,
    onList: () => void,
  ) {
    this.#deps = deps;
    this.definition = definition;
    this.models = new Map(models);
    this.#onList = onList;
    this.#upstream = new Upstream(deps.clock, definition);
  }

  /** Lists until it is closed. Resolves after the first list, also if that fails. */
  async begin(): Promise<void> {
    const { clock, random } = this.#deps;
    try {
      const found = await discoverModels(this.#upstream, clock, this.#stop);
      if (!this.#stop.aborted) this.#take(found);
    } catch (error) {
      if (!this.#stop.aborted) this.#failed(error);
    }
    if (this.#stop.aborted) return;
    const jitter = 1 + jitterShare * (2 * random() - 1);
    this.#cancelTimer = clock.after(jitter * this.#delayMs(), () => void this.begin());
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("the upstream is not listed any more"));
    this.#cancelTimer();
    await this.#upstream.close();
  }

  #delayMs(): number {
    if (this.#failures > 0) return Math.min(retryMaxMs, retryMs * 2 ** (this.#failures - 1));
    return this.definition.discoverMs ?? retryMaxMs;
  }

  #take(found: readonly DiscoveredModel[]): void {
    const { name } = this.definition;
    if (this.#failures > 0) this.#deps.log.info({ upstream: name }, "the upstream lists its models again");
    this.#failures = 0;
    for (const model of this.models.values()) model.misses += 1;
    const offered = found.filter(({ operations }) => operations.length > 0);
    const usable = offered.filter(({ id }) => modelIdForm.test(id));
    for (const { id, contextLength, embeddingDims } of usable) {
      this.models.set(id, { listed: { contextLength, embeddingDims }, misses: 0 });
    }
    for (const [id, { misses }] of this.models) if (misses >= missesMax) this.models.delete(id);
    const unusable = offered.length - usable.length;
    if (unusable > this.#unusable) {
      const text = "the upstream has models whose ids cannot be used here: configure them with another id";
      this.#deps.log.warn({ upstream: name, models: unusable }, text);
    }
    this.#unusable = unusable;
    this.#onList();
  }

  #failed(error: unknown): void {
    this.#failures += 1;
    if (this.#failures > 1) return;
    const code = error instanceof EngineError ? error.code : "internal";
    const fields = { upstream: this.definition.name, error: code };
    this.#deps.log.warn(fields, "the upstream does not list its models; those of its last list stay");
  }
}
