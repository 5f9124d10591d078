import type { Call } from "../call/call.js";
import { endReasonOf, errorOfEnd } from "../call/call-context.js";
import type { ServiceError } from "../call/service-error.js";
import { serviceErrorOf } from "../engine/engine-error.js";
import type { Run } from "./run.js";

/** Settles a run that did not complete; resolves to what the caller is told. An end from outside is the reason it ended. */
export async function settleFailure(call: Call, run: Run, thrown: unknown): Promise<ServiceError> {
  const { stop } = call;
  const error = stop.aborted ? errorOfEnd(stop.reason) : serviceErrorOf(thrown);
  if (error.code === "internal_error") call.log.error({ err: error.cause }, "request failed");
  await run.end(stop.aborted ? endReasonOf(stop) : "failed", error);
  return error;
}
