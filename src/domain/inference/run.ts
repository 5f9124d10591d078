import type { Call } from "../call/call.js";
import { type EndReason, errorOfEnd } from "../call/call-context.js";
import type { Observer } from "../call/observer.js";
import type { Clock } from "../call/ports.js";
import type { LimitScope } from "../call/rate-limits.js";
import type { ServiceError } from "../call/service-error.js";
import { UsageTally } from "../call/usage-tally.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Accounting } from "../metering/accounting.js";
import { leaseMs } from "../metering/lease-keeper.js";
import type { Admission, AdmitRequest, Admitted, Budget, Charge, Ledger } from "../metering/ledger.js";
import type { LimitBook } from "../metering/limit-book.js";
import type { LimitGate } from "../metering/limit-gate.js";
import { errorOfRefusal } from "../metering/limit-response.js";
import type { Reservation } from "./reservation.js";

export interface RunDeps {
  readonly ledger: Pick<Ledger, "settle">;
  readonly accounting: Pick<Accounting, "settlementOf">;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "usageLost">;
}

/**
 * How long an ended request waits for its engine to say what it had produced. An engine answers an abort within
 * milliseconds; one that does not is settled with what was seen.
 */
const lastWordsMs = 1_000;

/**
 * One admitted request. Whoever ends it first decides why; the settlement is written exactly once, by then or never.
 * It does not depend on a door calling `return()` on an iterator: a generator that is blocked in an `await` does not see
 * that.
 */
export class Run {
  readonly call: Call;
  readonly model: CatalogModel;
  readonly tally = new UsageTally();
  readonly #deps: RunDeps;
  /** Its limits were decided without the shared store. */
  readonly #degraded: boolean;
  #hasEnded = false;
  #settling: Promise<void> | undefined;
  #engineHasEnded = false;
  #onEngineEnd: () => void = () => {};

  constructor(deps: RunDeps, call: Call, model: CatalogModel, degraded: boolean) {
    this.#deps = deps;
    this.#degraded = degraded;
    this.call = call;
    this.model = model;
    call.hold(this.tally);
  }

  /** Tokens of a choice so far, held-back text included. */
  produced(choice: number, outTokens: number): void {
    this.tally.produced(choice, outTokens);
  }

  /** The engine will add nothing to the tally. */
  engineEnded(): void {
    this.#engineHasEnded = true;
    this.call.times.engineEnded(this.#deps.clock.monotonic());
    this.#onEngineEnd();
  }

  /**
   * Ends and settles; a promise where that has to be waited for. Idempotent: later calls wait for the same settlement and
   * change nothing.
   */
  end(why: EndReason, error?: ServiceError): Promise<void> | undefined {
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      const isOver = why === "completed" || this.#engineHasEnded;
      this.#settling = isOver ? this.#settle(why, error) : this.#lastWords().then(() => this.#settle(why, error));
    }
    return this.#settling;
  }

  #settle(why: EndReason, error: ServiceError | undefined): Promise<void> | undefined {
    const { call, tally } = this;
    const { clock, ledger, accounting } = this.#deps;
    const usage = tally.total();
    call.ended(why, error?.code ?? null, usage);
    try {
      const { requestId, account, keyId, operation } = call;
      const request = { requestId, account, keyId, operation, model: this.model, degraded: this.#degraded };
      const latencyMs = clock.now() - call.receivedAtMs;
      const settling = ledger.settle(accounting.settlementOf(request, { why, error: error ?? null, usage, latencyMs }));
      if (settling instanceof Promise) return this.#written(settling);
    } catch (cause) {
      return this.#written(Promise.reject(cause));
    }
    call.letGo();
    return undefined;
  }

  async #written(settling: Promise<unknown>): Promise<void> {
    try {
      await settling;
    } catch (cause) {
      this.#deps.observer.usageLost();
      throw cause;
    } finally {
      this.call.letGo();
    }
  }

  /** Waits until the engine has ended, but not for long. */
  async #lastWords(): Promise<void> {
    let cancelTimer = (): void => {};
    await new Promise<void>((resolve) => {
      this.#onEngineEnd = resolve;
      cancelTimer = this.#deps.clock.after(lastWordsMs, resolve);
    });
    cancelTimer();
  }
}

export interface AdmissionDeps extends RunDeps {
  readonly ledger: Pick<Ledger, "admit" | "settle">;
  readonly accounting: Pick<Accounting, "settlementOf" | "budgetsOf" | "costOf">;
  readonly limitBook: Pick<LimitBook, "scopesOf">;
  /** Told of refusals. */
  readonly gate: Pick<LimitGate, "note">;
  readonly observer: Pick<Observer, "usageLost" | "limitHit">;
}

export interface AdmittedRun {
  readonly run: Run;
  readonly admission: Admitted;
}

/**
 * Admits a validated request in one atomic call. What it can use at most is asked for when a limit of tokens or a budget
 * applies: counting a prompt costs the engine a moment. Throws or rejects with 429 when a limit refuses it.
 */
export function admitRun(
  deps: AdmissionDeps,
  call: Call,
  model: CatalogModel,
  reserve: () => Promise<Reservation>,
): AdmittedRun | Promise<AdmittedRun> {
  if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
  const scopes = deps.limitBook.scopesOf(call.principal, model.id);
  const budgets = deps.accounting.budgetsOf(call.principal);
  const limits = { scopes, budgets };
  if (!countsTokens(scopes, budgets)) return admit(deps, call, model, limits, nothing);
  return reserve().then((reservation) => {
    if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
    return admit(deps, call, model, limits, demandOf(deps, model, reservation));
  });
}

/** What a request must fit into. */
type Applying = Pick<AdmitRequest, "scopes" | "budgets">;

/** What is reserved for a request, and what is known of its prompt. */
interface Demand {
  readonly reserve: Charge;
  readonly promptTokens: number;
}

const nothing: Demand = Object.freeze({ reserve: Object.freeze({ tokens: 0, costNano: 0 }), promptTokens: 0 });

function demandOf({ accounting }: AdmissionDeps, model: CatalogModel, reservation: Reservation): Demand {
  const { promptTokens, outputTokens, isCounted } = reservation;
  return {
    reserve: {
      tokens: promptTokens + outputTokens,
      costNano: accounting.costOf(model, promptTokens, outputTokens),
    },
    promptTokens: isCounted ? promptTokens : 0,
  };
}

function countsTokens(scopes: readonly LimitScope[], budgets: readonly Budget[]): boolean {
  return (
    scopes.some(({ limits }) => limits.tokensPerMinute !== null) || budgets.some(({ metric }) => metric !== "requests")
  );
}

function admit(
  deps: AdmissionDeps,
  call: Call,
  model: CatalogModel,
  { scopes, budgets }: Applying,
  { reserve, promptTokens }: Demand,
): AdmittedRun | Promise<AdmittedRun> {
  const { requestId, operation } = call;
  const { account, keyId } = call.principal;
  const admission = deps.ledger.admit({
    requestId,
    account,
    keyId,
    model: model.id,
    operation,
    leaseMs,
    scopes,
    budgets,
    reserve,
    promptTokens,
  });
  // What is decided at once took no time worth telling.
  if (!(admission instanceof Promise)) return admittedRun(deps, call, model, admission);
  const askedAtMs = deps.clock.monotonic();
  return admission.then((decided) => {
    call.times.admitted(deps.clock.monotonic() - askedAtMs);
    return admittedRun(deps, call, model, decided);
  });
}

/** Throws 429 for a refusal. */
function admittedRun(deps: AdmissionDeps, call: Call, model: CatalogModel, admission: Admission): AdmittedRun {
  if (admission.admitted) return { run: new Run(deps, call, model, admission.degraded), admission };
  deps.gate.note(admission);
  deps.observer.limitHit(admission.refusal.which);
  throw errorOfRefusal(admission);
}
