import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock, Logger } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { type Capabilities, type Engine, EngineError, type LoadedModel, type LoadProgress } from "../engine/engine.js";
import type { Ejection, EjectionState } from "../routing/ejection.js";
import type { EjectionGroup } from "../routing/ejection-group.js";
import type { RoutedDeployment } from "../routing/waiting-room.js";
import type { DrainedDeployments } from "./drained-deployments.js";
import type { HealthChecks } from "./health-checks.js";
import { IdleUnload } from "./idle-unload.js";
import type { PriceList } from "./prices.js";

/** One way to run a model, as configured. */
export interface DeploymentDefinition {
  readonly engine: Engine;
  /** Unique among all deployments; null: `<model>/<position>`. */
  readonly id: string | null;
  /** Name of its upstream; null: it runs in this process or a child of it. */
  readonly upstream: string | null;
  /** Name of the model at the upstream; null without one. */
  readonly upstreamModel: string | null;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Concurrent requests. */
  readonly slots: number;
  /**
   * Maximum number of requests that wait for a slot. The deployments of a model share one queue of the sum of their values.
   */
  readonly queueMax: number;
  /** Share of the model's requests, relative to its other deployments. Above 0. */
  readonly weight: number;
  /** Deployments of the lowest number are used first. */
  readonly priority: number;
  /** Null: the prices of the model. */
  readonly prices: PriceList | null;
  /** Time without requests after which the model is unloaded until the next request; null: it stays loaded. */
  readonly keepAliveMs: number | null;
  /** The engine's own options. */
  readonly options: unknown;
  /** Whether another model is used when this one cannot be loaded: the failure is then logged by the caller. Default: false. */
  readonly hasSubstitute?: boolean;
}

export interface DeploymentDeps {
  readonly clock: Clock;
  /** For timers that belong to no request. */
  readonly backgroundClock: Pick<Clock, "after">;
  readonly log: Logger;
  readonly limits: Pick<ServiceLimits, "queueWaitMs">;
  /** Random numbers from 0 to below 1, for the choice among equal deployments. */
  readonly random: () => number;
  readonly healthChecks: Pick<HealthChecks, "begin" | "end">;
  /** Deployments that get no new requests; running ones end normally. */
  readonly drained: Pick<DrainedDeployments, "has">;
}

/** Time in which running requests of a removed deployment may finish. */
const unloadGraceMs = 120_000;
/** Retry-After when a load did not finish in time. */
const loadingRetryMs = 10_000;

/** Place of a deployment in its model. */
interface DeploymentPlace {
  readonly modelId: string;
  /** Index among the model's deployments, from 0. */
  readonly position: number;
  readonly group: EjectionGroup;
  /** Slots that the model has granted so far. */
  readonly granted: () => number;
  /** Called when the deployment becomes usable or unusable. */
  readonly onChange: () => void;
}

/** State of a deployment, as `/debug/state` and the dashboard show it. */
export interface DeploymentState {
  /** A deployment whose load failed is `loading` too: it is loaded again when the configuration is reloaded. */
  readonly state: EjectionState["state"] | "loading" | "draining";
  /** Explanation for people; null if there is nothing to explain. */
  readonly reason: string | null;
  /** Expected end of the state in ISO 8601; null if not known. */
  readonly until: string | null;
}

function timeOf({ untilMs }: EjectionState): string | null {
  return untilMs === null ? null : new Date(untilMs).toISOString();
}

/** A model loaded in an engine. */
export class Deployment implements RoutedDeployment {
  /** For logs and headers. */
  readonly id: string;
  readonly modelId: string;
  /** Null: it runs in this process or a child of it. */
  readonly upstream: string | null;
  readonly upstreamModel: string | null;
  readonly contextLength: number;
  readonly slots: number;
  readonly weight: number;
  readonly priority: number;
  readonly prices: PriceList | null;
  readonly ejection: Ejection;
  outstandingRequests = 0;
  outstandingTokens = 0;
  /** The loaded model; null while it loads, after a failed load, and while it is unloaded because it was not used. */
  model: LoadedModel | null = null;
  /** Load progress; null once finished. */
  progress: LoadProgress | null = { stage: "loading", share: 0 };
  /** Load error; null while loading and when loaded. */
  failure: EngineError | null = null;
  /** Resolves when loading ends; never rejects. Another load begins when a request needs an unloaded model. */
  loadEnded: Promise<void>;
  readonly #idle: IdleUnload | null;
  readonly #definition: DeploymentDefinition;
  readonly #deps: DeploymentDeps;
  readonly #onChange: () => void;
  readonly #abortLoad = new AbortController();

  constructor(deps: DeploymentDeps, definition: DeploymentDefinition, place: DeploymentPlace) {
    const { modelId, position, group } = place;
    this.id = definition.id ?? `${modelId}/${position}`;
    this.modelId = modelId;
    this.upstream = definition.upstream;
    this.upstreamModel = definition.upstreamModel;
    this.contextLength = definition.contextLength;
    this.slots = definition.slots;
    this.weight = definition.weight;
    this.priority = definition.priority;
    this.prices = definition.prices;
    const changed = (state: EjectionState): void => {
      const fields = { deployment: this.id, reason: state.reason, until: timeOf(state) };
      if (state.state === "ready" && state.reason === null) deps.log.info(fields, "deployment is in use again");
      else if (state.state === "ready") deps.log.warn(fields, "deployment is failing but stays in use");
      else deps.log.warn(fields, `deployment is ${state.state}`);
      // The last requests of a removed deployment may still fail.
      if (this.ejection.isEjected && !this.#abortLoad.signal.aborted) deps.healthChecks.begin(this);
      else deps.healthChecks.end(this);
    };
    this.ejection = group.add(changed, () => this.model?.heldForMs ?? 0);
    this.#deps = deps;
    this.#onChange = place.onChange;
    this.#definition = definition;
    const { keepAliveMs } = definition;
    this.#idle = keepAliveMs === null ? null : new IdleUnload(deps, this, keepAliveMs, place.granted);
    this.loadEnded = this.#load();
  }

  /** Capabilities of the loaded model, or of the one that was unloaded because it was not used. */
  get caps(): Capabilities | null {
    return this.model?.caps ?? this.#idle?.caps ?? null;
  }

  /** Whether the model was unloaded because it was not used; the next request loads it. */
  get isUnloadedWhileIdle(): boolean {
    return this.#idle?.isUnloaded === true;
  }

  /**
   * Takes the model out of use and returns it, for the caller to unload. Called when it had no request for its keep-alive
   * time.
   */
  unloadIdle(): LoadedModel | null {
    const { model } = this;
    this.model = null;
    this.#onChange();
    return model;
  }

  /** Whether new requests may run on it. */
  get isUsable(): boolean {
    return this.model !== null && !this.isDraining;
  }

  /** The state, its reason and its end, for people. */
  get state(): DeploymentState {
    if (this.isDraining) return { state: "draining", reason: drainingText, until: null };
    if (this.isUnloadedWhileIdle) return { state: "ready", reason: unloadedText, until: null };
    if (this.failure !== null) {
      return { state: "loading", reason: `The load failed: ${this.failure.message}`, until: null };
    }
    if (this.model === null) return { state: "loading", reason: stillLoadingText(this.progress), until: null };
    const { state } = this.ejection;
    return { state: state.state, reason: state.reason, until: timeOf(state) };
  }

  /** Whether new requests use the other deployments. */
  get isDraining(): boolean {
    return this.#deps.drained.has(this.id);
  }

  /** Call it when the drained deployments have changed. */
  drainsChanged(): void {
    this.#onChange();
  }

  /** Lets running requests finish, then frees the engine's memory. */
  async retire(): Promise<void> {
    this.#deps.healthChecks.end(this);
    this.#abortLoad.abort(new EngineError("aborted", "the model was removed from the catalog"));
    await this.#idle?.close();
    await this.loadEnded;
    await this.model?.unload(unloadGraceMs);
  }

  async #load(): Promise<void> {
    const { engine, contextLength, slots, options, hasSubstitute } = this.#definition;
    const spec = { id: this.modelId, deployment: this.id, contextLength, slots, options };
    const onProgress = (progress: LoadProgress): void => {
      if (this.progress !== null) this.progress = progress;
    };
    try {
      this.model = await engine.load(spec, onProgress, this.#abortLoad.signal);
    } catch (cause) {
      const isKnown = cause instanceof EngineError;
      this.failure = isKnown ? cause : new EngineError("internal", "the engine failed to load the model", { cause });
      // The failure of a removed model is no error: its load was aborted.
      const isExpected = hasSubstitute === true || this.#abortLoad.signal.aborted;
      this.#deps.log[isExpected ? "debug" : "error"]({ deployment: this.id, err: cause }, "model failed to load");
    }
    this.progress = null;
    if (this.model === null) return;
    this.failure = null;
    this.#idle?.loaded(this.model.caps);
    this.#onChange();
  }

  /** Loads the model again for a request, after an unload in progress has ended. */
  #loadAgain(idle: IdleUnload): void {
    this.failure = null;
    this.progress = { stage: "loading", share: 0 };
    this.loadEnded = idle.unloaded.then(() => this.#load());
  }

  /**
   * Resolves with the model once loaded (RETRY-4). Rejects with `model_loading` after `queueWaitMs`, with
   * `model_not_loaded` when loading failed, and with the call's own error when `stop` aborts.
   */
  async onceLoaded(stop: AbortFlag): Promise<LoadedModel> {
    const { clock, limits } = this.#deps;
    if (this.#idle?.beginLoadIfDue() === true) this.#loadAgain(this.#idle);
    await new Promise<void>((resolve, reject) => {
      if (stop.aborted) return reject(errorOfEnd(stop.reason));
      const onAbort = (): void => {
        cancelTimer();
        reject(errorOfEnd(stop.reason));
      };
      const cancelTimer = clock.after(limits.queueWaitMs, () => {
        stop.removeEventListener("abort", onAbort);
        reject(new ServiceError("model_loading", stillLoadingText(this.progress), { retryAfterMs: loadingRetryMs }));
      });
      stop.addEventListener("abort", onAbort);
      void this.loadEnded.then(() => {
        cancelTimer();
        stop.removeEventListener("abort", onAbort);
        resolve();
      });
    });
    if (this.model !== null) return this.model;
    // Only a model that is unloaded while idle is loaded again by a later request.
    const advice = this.#idle?.caps == null ? { shouldRetry: false } : { retryAfterMs: loadingRetryMs };
    throw new ServiceError("model_not_loaded", notLoadedText, { cause: this.failure, ...advice });
  }
}

/** Names the three ways to get a model; the log has the cause. */
const notLoadedText =
  "The model could not be fetched or loaded; the service's log says why, and the list of models shows what can be used. " +
  "Its operator can fetch it from a mirror " +
  "(uis models pull SOURCE --id ID), import a file (uis models import FILE --id ID), or configure another engine.";

const unloadedText = "It was unloaded because nobody used it; the next request loads it.";

const drainingText = "It gets no new requests; running ones end normally.";

function stillLoadingText(progress: LoadProgress | null): string {
  if (progress === null || progress.share <= 0) return "The model is still being loaded.";
  const percent = Math.floor(progress.share * 100);
  const work = { fetching: "fetched", converting: "converted", loading: "loaded" }[progress.stage];
  return `The model is still being ${work}: ${percent} % are done.`;
}
