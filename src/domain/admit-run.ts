import { andThen } from "../lib/and-then.js";
import type { Call } from "./call.js";
import { errorOfEnd } from "./call-context.js";
import type { CatalogModel } from "./catalog/catalog-model.js";
import type { Admission, Ledger } from "./ledger.js";
import type { Clock } from "./ports.js";
import { Run } from "./run.js";
import { ServiceError } from "./service-error.js";

/** How long an admitted request counts as live without being renewed (state RL-18). */
const leaseMs = 60_000;

export interface AdmittedRun {
  readonly run: Run;
  readonly admission: Extract<Admission, { admitted: true }>;
}

/** Admits a validated request in one atomic call. Throws or rejects with 429 when a limit refuses it. */
export function admitRun(
  deps: { ledger: Ledger; clock: Clock },
  call: Call,
  model: CatalogModel,
): AdmittedRun | Promise<AdmittedRun> {
  if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
  const asked = deps.ledger.admit({
    requestId: call.requestId,
    account: call.principal.account,
    keyId: call.principal.keyId,
    model: model.id,
    tokens: 0,
    leaseMs,
  });
  return andThen(asked, (admission) => {
    if (!admission.admitted) throw refusal(admission);
    return { run: new Run(deps, call, model.id), admission };
  });
}

function refusal(refused: Extract<Admission, { admitted: false }>): ServiceError {
  if (refused.which === "budget") return new ServiceError("insufficient_quota", refused.message);
  return new ServiceError("rate_limit_exceeded", refused.message, {
    type: refused.which === "tokens" ? "tokens" : "requests",
    ...(refused.retryAfterMs === null ? { shouldRetry: false } : { retryAfterMs: refused.retryAfterMs }),
  });
}
