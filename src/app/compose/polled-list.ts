import { modelIdForm } from "../../contract/names.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { EngineError } from "../../domain/engine/engine.js";
import type { DiscoveredModel, ListedFacts, UpstreamDefinition } from "../../domain/engine/upstream.js";
import { Upstream } from "../../engines/openai/connection/upstream.js";
import { discoverModels } from "../../engines/openai/discovery.js";
import { AbortSource } from "../../lib/abort-source.js";
import { problemText } from "./upstream-check.js";

/** Delay of the next list after a failed one; doubles up to the maximum. */
const retryMs = 1_000;
const retryMaxMs = 60_000;
/** Delays vary by this share in both directions, so that replicas do not list at the same moment. */
const jitterShare = 0.1;
/** Consecutive lists without a model after which it is removed: a server may list no models while it restarts. */
const missesMax = 2;
export interface PolledListDeps {
  readonly clock: Clock;
  /** Returns random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly log: Logger;
}

/** A model that one of the last lists contained. */
interface ListedModel {
  readonly listed: ListedFacts;
  /** Number of consecutive successful lists without the model. */
  misses: number;
}

/** The models of one upstream, listed at its interval. A failed list changes nothing. */
export class PolledList {
  readonly definition: UpstreamDefinition;
  /** The models by id. */
  readonly models: Map<string, ListedModel>;
  readonly #deps: PolledListDeps;
  readonly #onList: () => void;
  readonly #upstream: Upstream;
  readonly #stop = new AbortSource();
  #cancelTimer = (): void => {};
  #failures = 0;
  #unusable = 0;
  #problem: string | null = null;

  /** `models`: those of the former definition, for the time until the first list. `onList` is called after each list. */
  constructor(
    deps: PolledListDeps,
    definition: UpstreamDefinition,
    models: ReadonlyMap<string, ListedModel>,
    onList: () => void,
  ) {
    this.#deps = deps;
    this.definition = definition;
    // A model of the former server is removed if the first list of the new one does not contain it.
    this.models = new Map([...models].map(([id, { listed }]) => [id, { listed, misses: missesMax - 1 }]));
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

  /** Why the last list failed, for people; null if it succeeded. */
  get problem(): string | null {
    return this.#problem;
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
    this.#problem = null;
    for (const model of this.models.values()) model.misses += 1;
    const offered = found.filter(({ operations }) => operations.length > 0);
    const usable = offered.filter(({ id }) => modelIdForm.test(id));
    for (const { id, operations: _, ...listed } of usable) this.models.set(id, { listed, misses: 0 });
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
    this.#problem = error instanceof EngineError ? problemText(error, this.definition) : "The list could not be read.";
    if (this.#failures > 1) return;
    const code = error instanceof EngineError ? error.code : "internal";
    const fields = { upstream: this.definition.name, error: code };
    this.#deps.log.warn(fields, "the upstream does not list its models; those of its last list stay");
  }
}
