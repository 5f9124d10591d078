import type { Call } from "../call.js";
import { endReasonOf, errorOfEnd } from "../call-context.js";
import type { Run } from "../run.js";
import type { ServiceError } from "../service-error.js";
import { serviceErrorOf } from "./engine-error.js";

/** Settles a run that did not complete; resolves to what the caller is told. An end from outside is the reason it ended. */
export async function settleFailure(call: Call, run: Run, thrown: unknown): Promise<ServiceError> {
  const { stop } = call;
  const error = stop.aborted ? errorOfEnd(stop.reason) : serviceErrorOf(thrown);
  if (error.code === "internal_error") call.log.error({ err: error.cause }, "request failed");
  await run.end(stop.aborted ? endReasonOf(stop) : "failed", error);
  return error;
}
