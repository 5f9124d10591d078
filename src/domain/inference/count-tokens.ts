import { create } from "@bufbuild/protobuf";
import {
  type CountTokensResponse,
  CountTokensResponseSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { type Answer, errorOfEnd } from "../call/call-context.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import type { RunPlan } from "./chat-request.js";
import type { AdmittedRequest } from "./fallbacks.js";
import { unlessStopped } from "./input-run.js";
import { type Reservation, reserveForPrompts } from "./reservation.js";
import { settleFailure } from "./run.js";

/** Counting a prompt uses no tokens of any limit or budget. */
export const reserveNothing = (): Reservation => ({ promptTokens: 0, outputTokens: 0, isCounted: true });

/**
 * Counts the prompt of an admitted chat request, and settles the request with no tokens. It takes no slot of its model: the
 * engine counts while other requests run. The account's share bounds how many prompts are counted at the same time.
 */
export async function countTokens(
  { run, plan }: AdmittedRequest<RunPlan>,
  { tokenizing }: Pick<FairShares, "tokenizing">,
): Promise<Answer<CountTokensResponse>> {
  const { call } = run;
  try {
    if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
    call.stage = "running";
    // A cancelled count does not have to wait for usage figures of the engine.
    run.engineEnded();
    const countPrompts = async () => reserveForPrompts(run.model.loaded, plan.prompts, call.stop);
    const count = () => unlessStopped(countPrompts(), call.stop);
    const { promptTokens, isCounted } = await runInShare(tokenizing, call, call.stop, count);
    call.stage = "delivering";
    await run.end("completed");
    return {
      head: run.head(0),
      body: create(CountTokensResponseSchema, { promptTokens, estimated: !isCounted }),
    };
  } catch (thrown) {
    throw await settleFailure(run, thrown);
  }
}
