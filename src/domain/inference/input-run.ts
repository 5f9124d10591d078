import type { AbortFlag } from "../../lib/abort-source.js";
import { type Answer, errorOfEnd } from "../call/call-context.js";
import { invariant } from "../call/service-error.js";
import type { Deployment } from "../catalog/deployment.js";
import {
  type Capabilities,
  type EmbedRequest,
  EngineError,
  type LoadedModel,
  type RerankRequest,
} from "../engine/engine.js";
import { serviceErrorOf } from "../engine/engine-error.js";
import type { Slot } from "../routing/waiting-room.js";
import { Attempts } from "./attempts.js";
import { builtOrNull } from "./chat-request.js";
import { type AdmittedRequest, runWithFallbacks } from "./fallbacks.js";
import { type Run, settleFailure } from "./run.js";

/** A request that only reads its input. */
type InputRequest = EmbedRequest | RerankRequest;

/** Builds the engine request for a deployment. Throws ServiceError for a feature that the deployment does not support. */
export type BuildInput<Q> = (caps: Capabilities) => Q;

/** Calls the engine, and adds the input tokens that it read to the tally of the run. */
type InputWork<Q, R> = (loaded: LoadedModel, request: Q) => Promise<R>;

/**
 * Runs and settles an admitted request that only reads its input, such as embeddings. It runs `work` in a slot of the
 * model's deployments, the least loaded one first, until one succeeds; if all fail, it continues with the deployments of the
 * fallback models. `answer` builds the body once the work is done. Does not wait for an engine that ignores its signal.
 */
export async function runInput<Q extends InputRequest, R, M>(
  { run, plan, fallbacks }: AdmittedRequest<Q>,
  build: BuildInput<Q>,
  work: InputWork<Q, R>,
  answer: (result: R) => M,
): Promise<Answer<M>> {
  const { call } = run;
  try {
    const inTurn = (): Promise<R> => workInTurn(run, build, work);
    const working = fallbacks === null ? inTurn() : runWithFallbacks(run, fallbacks, plan, inTurn, () => true);
    const result = await unlessStopped(
      working.finally(() => run.engineEnded()),
      call.stop,
    );
    call.stage = "delivering";
    await run.end("completed");
    return { head: run.head(call.times.queueMs), body: answer(result) };
  } catch (thrown) {
    throw await settleFailure(run, thrown);
  }
}

/**
 * Makes one call of the engine. Sets the prompt tokens of the run to `before` (the tokens of earlier calls) plus the tokens
 * of this call, even if it fails.
 */
export async function tallied<R extends { readonly promptTokens: number }>(
  { tally }: Run,
  before: number,
  call: () => Promise<R>,
): Promise<R> {
  try {
    const result = await call();
    tally.prompt(0, before + result.promptTokens, 0);
    return result;
  } catch (thrown) {
    if (thrown instanceof EngineError) tally.prompt(0, before + (thrown.usage?.promptTokens ?? 0), 0);
    throw thrown;
  }
}

async function workInTurn<Q extends InputRequest, R>(
  run: Run,
  build: BuildInput<Q>,
  work: InputWork<Q, R>,
): Promise<R> {
  const { call } = run;
  const attempts = new Attempts(
    run,
    () => ({ tokens: 1, affinityKey: null }),
    (caps) => builtOrNull(() => build(caps)) !== null,
  );
  for (;;) {
    let slot: Slot<Deployment> | null = null;
    try {
      call.stage = "queued";
      slot = await attempts.next(call.stop, false);
      const { deployment } = slot;
      invariant(deployment.model !== null, "a slot is of a loaded deployment");
      run.startedOn(deployment);
      call.stage = "running";
      call.waited(call.times.queueMs + slot.queueMs);
      const request = build(deployment.model.caps);
      request.queueMs = slot.queueMs;
      const result = await work(deployment.model, request);
      attempts.answered(slot, null, attempts.tokens);
      return result;
    } catch (thrown) {
      const error = serviceErrorOf(thrown);
      run.tryFailed(slot?.deployment, error);
      if (!attempts.failed(slot, error, true, call.stop)) throw thrown;
      call.log.warn({ deployment: slot?.deployment.id, error: error.code }, "deployment failed, trying another one");
    } finally {
      slot?.release();
    }
  }
}

/** Resolves with the work, or rejects as soon as the call ends: work that ignores the signal is not awaited. */
export function unlessStopped<T>(work: Promise<T>, stop: AbortFlag): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(errorOfEnd(stop.reason));
    stop.addEventListener("abort", onAbort);
    const over = (): void => stop.removeEventListener("abort", onAbort);
    work.then(resolve, reject).finally(over);
  });
}
