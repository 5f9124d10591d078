import type { Call } from "../call/call.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Observer } from "../call/observer.js";
import type { LimitScope } from "../call/rate-limits.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Accounting } from "../metering/accounting.js";
import { leaseMs } from "../metering/lease-keeper.js";
import type { Admission, AdmitRequest, Admitted, Budget, Charge, Ledger } from "../metering/ledger.js";
import type { LimitBook } from "../metering/limit-book.js";
import type { LimitGate } from "../metering/limit-gate.js";
import { errorOfRefusal } from "../metering/limit-refusal.js";
import type { Reservation } from "./reservation.js";
import { Run, type RunDeps } from "./run.js";

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
