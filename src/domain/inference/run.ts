import type { Call } from "../call/call.js";
import { type AnswerHead, type AnswerRoute, type EndReason, endReasonOf, errorOfEnd } from "../call/call-context.js";
import { UsageTally } from "../call/live-requests.js";
import type { Observer } from "../call/observer.js";
import type { Clock } from "../call/ports.js";
import type { ServiceError } from "../call/service-error.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Deployment } from "../catalog/deployment.js";
import { serviceErrorOf } from "../engine/engine-error.js";
import type { Accounting } from "../metering/accounting.js";
import { leaseMs } from "../metering/lease-keeper.js";
import type { Admission, Admitted, Charge, Ledger } from "../metering/ledger.js";
import type { LimitBook } from "../metering/limit-book.js";
import type { RejectionCache } from "../metering/limit-response.js";
import { errorOfRefusal } from "../metering/limit-response.js";
import type { Reservation, Reserving } from "./reservation.js";

export interface RunDeps {
  readonly ledger: Pick<Ledger, "settle" | "answerBegins">;
  readonly accounting: Pick<Accounting, "settlementOf">;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "usageLost" | "promptEstimated">;
}

const noRoute: AnswerRoute = Object.freeze({ deployment: "", attempts: 0, fallbackModel: null });

/** Maximum wait for the final usage of an aborted engine, which normally arrives within milliseconds. */
const engineEndWaitMs = 1_000;

/**
 * One admitted request. The first `end` decides the reason, and the settlement is written exactly once. It does not
 * rely on a transport calling `return()` on an iterator, which a generator blocked in an `await` does not see.
 */
export class Run {
  readonly call: Call;
  /** The model whose limits were checked at the admission. */
  readonly requestedModel: CatalogModel;
  readonly tally = new UsageTally();
  /** Prompt tokens that were estimated at the admission; 0 if nothing was estimated or the model has no upstream. */
  estimatedTokens = 0;
  readonly #deps: RunDeps;
  readonly #admission: Admitted;
  #deployment: Deployment | null = null;
  #model: CatalogModel;
  #hasEnded = false;
  #settling: Promise<void> | undefined;
  #engineHasEnded = false;
  #onEngineEnd: () => void = () => {};

  constructor(deps: RunDeps, call: Call, model: CatalogModel, admission: Admitted) {
    this.#deps = deps;
    this.#admission = admission;
    this.call = call;
    this.requestedModel = model;
    this.#model = model;
    call.hold(this.tally);
  }

  /** The model that runs it: the requested one or a fallback. Its usage is settled under this model, at its prices. */
  get model(): CatalogModel {
    return this.#model;
  }

  /** Restarts the request on another model. Tokens of earlier tries are not charged. */
  continueOn(model: CatalogModel): void {
    this.#model = model;
    this.#deployment = null;
    this.tally.clear();
  }

  /** Records a try in a deployment. Its prices apply unless another try follows. */
  startedOn(deployment: Deployment): void {
    const { call } = this;
    const fallbackModel = this.#model === this.requestedModel ? null : this.#model.id;
    this.#deployment = deployment;
    call.details?.tryBegan(deployment.id, this.#model.id, this.#deps.clock.monotonic());
    call.route = { deployment: deployment.id, attempts: (call.route?.attempts ?? 0) + 1, fallbackModel };
  }

  /** Records the failure of a try, for the request log. `deployment` undefined: it had no slot yet. */
  tryFailed(deployment: Deployment | undefined, { code }: ServiceError): void {
    if (deployment === undefined) return;
    this.call.details?.tryFailed(deployment.id, code, this.#deps.clock.monotonic());
  }

  /** The route so far. */
  get route(): AnswerRoute {
    return this.call.route ?? noRoute;
  }

  /** Metadata of the answer: how it ran and the limits at its admission. */
  head(queueMs: number): AnswerHead {
    const { snapshot, degraded } = this.#admission;
    // Literals: a spread would cost every request.
    const { deployment, attempts, fallbackModel } = this.route;
    if (snapshot === undefined) return { deployment, attempts, fallbackModel, queueMs, degraded };
    return { deployment, attempts, fallbackModel, queueMs, degraded, limits: snapshot };
  }

  /** Called before the first byte of a streamed answer. */
  answerBegins(): void {
    this.#deps.ledger.answerBegins();
  }

  /** Records that the engine has finished and the tally is final. */
  engineEnded(): void {
    this.#engineHasEnded = true;
    this.call.times.engineEnded(this.#deps.clock.monotonic());
    this.#onEngineEnd();
  }

  /**
   * Ends and settles. Idempotent: later calls wait for the same settlement. Returns undefined if the ledger settled
   * synchronously: a promise here and in `admitRun` costs 5 to 10 % of the requests per second.
   */
  end(why: EndReason, error?: ServiceError): Promise<void> | undefined {
    if (this.#hasEnded) return this.#settling;
    this.#hasEnded = true;
    const isOver = why === "completed" || this.#engineHasEnded;
    this.#settling = isOver ? this.#settle(why, error) : this.#engineEnd().then(() => this.#settle(why, error));
    return this.#settling;
  }

  #settle(why: EndReason, error: ServiceError | undefined): Promise<void> | undefined {
    const { call } = this;
    const { clock, ledger, accounting } = this.#deps;
    const usage = this.tally.total();
    call.ended(why, error ?? null, usage);
    if (this.estimatedTokens > 0) this.#reportEstimate(why, usage.promptTokens);
    try {
      const { requestId, operation } = call;
      const { account, keyId } = call.principal;
      const prices = this.#deployment?.prices ?? null;
      const model = prices === null ? this.model : { id: this.model.id, prices };
      const request = { requestId, account, keyId, operation, model, degraded: this.#admission.degraded };
      const latencyMs = clock.now() - call.receivedAtMs;
      const settlement = accounting.settlementOf(request, { why, error: error ?? null, usage, latencyMs });
      if (call.details !== null) call.details.settled = settlement;
      const settling = ledger.settle(settlement);
      if (settling instanceof Promise) return this.#written(settling);
    } catch (cause) {
      return this.#written(Promise.reject(cause));
    }
    call.release();
    return undefined;
  }

  #reportEstimate(why: EndReason, settledTokens: number): void {
    const isMeasured = why === "completed" && settledTokens > 0 && this.#model === this.requestedModel;
    if (isMeasured) this.#deps.observer.promptEstimated(this.#model.id, this.estimatedTokens, settledTokens);
  }

  async #written(settling: Promise<unknown>): Promise<void> {
    try {
      await settling;
    } catch (cause) {
      this.#deps.observer.usageLost();
      throw cause;
    } finally {
      this.call.release();
    }
  }

  /** Waits for the end of the engine, within a bound. */
  async #engineEnd(): Promise<void> {
    let cancelTimer = (): void => {};
    await new Promise<void>((resolve) => {
      this.#onEngineEnd = resolve;
      cancelTimer = this.#deps.clock.after(engineEndWaitMs, resolve);
    });
    cancelTimer();
  }
}

/** Settles a failed run and returns the error for the caller. A call ended from outside is settled with that reason. */
export async function settleFailure(run: Run, thrown: unknown): Promise<ServiceError> {
  const { stop, log } = run.call;
  const error = stop.aborted ? errorOfEnd(stop.reason) : serviceErrorOf(thrown);
  if (error.code === "internal_error") log.error({ err: error.cause }, "request failed");
  await run.end(stop.aborted ? endReasonOf(stop) : "failed", error);
  return error;
}

export interface AdmissionDeps extends RunDeps {
  readonly ledger: Pick<Ledger, "admit" | "answerBegins" | "settle">;
  readonly accounting: Pick<Accounting, "settlementOf" | "budgetsOf" | "costOf">;
  readonly limitBook: Pick<LimitBook, "scopesOf">;
  /** Cache that is notified of rejections. */
  readonly rejections: Pick<RejectionCache, "note">;
  readonly observer: Pick<Observer, "usageLost" | "promptEstimated" | "limitHit">;
}

/**
 * Admits a validated request in one atomic call. If a token limit or a budget of tokens or cost applies, the maximum usage
 * of the request is reserved. Only then `reserve` is called, because the engine has to count the prompt. Throws or rejects
 * with 429 when a limit or a budget is exhausted.
 */
export function admitRun(
  deps: AdmissionDeps,
  call: Call,
  model: CatalogModel,
  reserve: () => Reserving,
): Run | Promise<Run> {
  throwIfEnded(call);
  const { clock, ledger, accounting, limitBook } = deps;
  const { requestId, operation, principal } = call;
  const { account, keyId } = principal;
  const scopes = limitBook.scopesOf(principal, model.id);
  const budgets = accounting.budgetsOf(principal);
  const admit = (charge: Charge, promptTokens: number): Run | Promise<Run> => {
    const admission = ledger.admit({
      requestId,
      account,
      keyId,
      model: model.id,
      operation,
      leaseMs,
      scopes,
      budgets,
      reserve: charge,
      promptTokens,
    });
    if (!(admission instanceof Promise)) return admittedRun(deps, call, model, admission);
    const sinceMs = clock.monotonic();
    return admission.then((decided) => {
      call.times.admitMs = clock.monotonic() - sinceMs;
      return admittedRun(deps, call, model, decided);
    });
  };
  const countsTokens =
    scopes.some(({ limits }) => limits.tokensPerMinute !== null) || budgets.some(({ metric }) => metric !== "requests");
  if (!countsTokens) return admit(noCharge, 0);
  const admitReserved = ({ promptTokens, outputTokens, isCounted }: Reservation): Run | Promise<Run> => {
    throwIfEnded(call);
    const costNano = accounting.costOf(model, promptTokens, outputTokens);
    const admitted = admit({ tokens: promptTokens + outputTokens, costNano }, isCounted ? promptTokens : 0);
    if (isCounted || !model.hasUpstream) return admitted;
    const noteEstimate = (run: Run): Run => {
      run.estimatedTokens = promptTokens;
      return run;
    };
    return admitted instanceof Promise ? admitted.then(noteEstimate) : noteEstimate(admitted);
  };
  const reserved = reserve();
  return reserved instanceof Promise ? reserved.then(admitReserved) : admitReserved(reserved);
}

/** Throws 429 for a rejection. */
function admittedRun(deps: AdmissionDeps, call: Call, model: CatalogModel, admission: Admission): Run {
  if (admission.admitted) return new Run(deps, call, model, admission);
  deps.rejections.note(admission);
  deps.observer.limitHit(admission.refusal.which);
  throw errorOfRefusal(admission);
}

const noCharge: Charge = Object.freeze({ tokens: 0, costNano: 0 });

function throwIfEnded(call: Call): void {
  if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
}
