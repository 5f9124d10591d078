import type { ErrorCode } from "../../contract/errors.js";
import type { Call } from "../call/call.js";
import type { ServiceError } from "../call/service-error.js";
import type { Catalog } from "../catalog/catalog.js";
import type { Capability, CatalogModel } from "../catalog/catalog-model.js";
import type { Capabilities, RequestDefaults } from "../engine/engine.js";
import { mayFailOver, serviceErrorOf } from "../engine/engine-error.js";
import { builtOrNull } from "./chat-request.js";
import type { Run } from "./run.js";

/** A loaded model that can run a request. `P` is the plan of the engine requests. */
export interface PlannedModel<P> {
  readonly model: CatalogModel;
  readonly plan: P;
}

/** The request that a fallback model must be able to run. */
interface FallbackRequest<P> {
  readonly capability: Capability;
  /** Throws ServiceError when no deployment with these capabilities can run the request. */
  plan(candidates: readonly Capabilities[], defaults: RequestDefaults | null): P;
}

/** Error codes of an upstream whose model cannot run the request; another model may be able to. */
const unableCodes: ReadonlySet<ErrorCode> = new Set([
  "context_length_exceeded",
  "unsupported_parameter",
  "unsupported_value",
  "token_input_not_supported",
]);

/**
 * The fallback models of one request, in the order configured for the requested model. Only models that the caller may use,
 * that are loaded and that can run the request are used. The request keeps the defaults of the requested model. Fallbacks of
 * fallbacks are not followed (REL-21).
 */
export class Fallbacks<P> {
  readonly #catalog: Pick<Catalog, "find">;
  readonly #call: Call;
  readonly #request: FallbackRequest<P>;
  readonly #requested: Pick<CatalogModel, "fallbacks" | "defaults">;
  #next = 0;
  /** Why the requested model could not answer; null as long as it may. */
  #failure: ServiceError | null = null;

  constructor(
    catalog: Pick<Catalog, "find">,
    call: Call,
    request: FallbackRequest<P>,
    requested: Pick<CatalogModel, "fallbacks" | "defaults">,
  ) {
    this.#catalog = catalog;
    this.#call = call;
    this.#request = request;
    this.#requested = requested;
  }

  /**
   * The model to try after a failure. Throws the error for the caller when there is none: the error of the requested model
   * if all fallbacks failed, or the current error if the request itself is invalid or the call was aborted.
   */
  after(thrown: unknown): PlannedModel<P> {
    const error = serviceErrorOf(thrown);
    const isUnableFallback = this.#failure !== null && unableCodes.has(error.code);
    if (this.#call.stop.aborted || !(mayFailOver(error) || isUnableFallback)) throw error;
    this.#failure ??= error;
    const { fallbacks } = this.#requested;
    for (let id = fallbacks[this.#next++]; id !== undefined; id = fallbacks[this.#next++]) {
      const fallback = this.#planned(id);
      if (fallback === null) continue;
      this.#call.log.warn({ model: this.#call.model, fallback: id, error: error.code }, "using a fallback model");
      return fallback;
    }
    throw this.#failure;
  }

  #planned(id: string): PlannedModel<P> | null {
    const model = this.#catalog.find(id, this.#call.principal);
    if (model === null || !model.capabilities.includes(this.#request.capability)) return null;
    const candidates = model.room.deployments.flatMap((deployment) => deployment.model?.caps ?? []);
    if (candidates.length === 0) return null;
    return builtOrNull(() => ({ model, plan: this.#request.plan(candidates, this.#requested.defaults) }));
  }
}

/** A request on its way to an engine. */
export interface AdmittedRequest<P> {
  readonly run: Run;
  readonly plan: P;
  /** Null: no other model may answer. */
  readonly fallbacks: Fallbacks<P> | null;
}

/**
 * Waits until a model is loaded and resolves to null. If it does not load, resolves to a fallback, or rejects if there is
 * none.
 */
export async function fallbackUnlessLoaded<P>(
  call: Call,
  model: CatalogModel,
  fallbacks: Fallbacks<P> | null,
): Promise<PlannedModel<P> | null> {
  try {
    await model.onceLoaded(call.stop);
    return null;
  } catch (thrown) {
    if (fallbacks === null) throw thrown;
    return fallbacks.after(thrown);
  }
}

/**
 * Runs `work` with the plan of the run's model. If that fails, runs it on the fallback models one after the other until one
 * succeeds. `canRestart`: the client has received nothing of the answer. A request that fails on all models is settled under
 * the requested model.
 */
export async function runWithFallbacks<P, R>(
  run: Run,
  fallbacks: Fallbacks<P>,
  plan: P,
  work: (plan: P) => Promise<R>,
  canRestart: () => boolean,
): Promise<R> {
  for (;;) {
    try {
      return await work(plan);
    } catch (thrown) {
      if (run.call.stop.aborted || !canRestart()) throw thrown;
      plan = nextPlan(run, fallbacks, thrown);
    }
  }
}

function nextPlan<P>(run: Run, fallbacks: Fallbacks<P>, thrown: unknown): P {
  try {
    const { model, plan } = fallbacks.after(thrown);
    run.continueOn(model);
    return plan;
  } catch (error) {
    if (run.model !== run.requestedModel) run.continueOn(run.requestedModel);
    throw error;
  }
}
