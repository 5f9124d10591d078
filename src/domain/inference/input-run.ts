import type { AbortFlag } from "../../lib/abort-source.js";
import { type Answer, type AnswerHead, errorOfEnd } from "../call/call-context.js";
import { invariant } from "../call/service-error.js";
import type { Deployment } from "../catalog/catalog-model.js";
import { type Capabilities, EngineError, type LoadedModel } from "../engine/engine.js";
import { mayFailOver, serviceErrorOf } from "../engine/engine-error.js";
import { canBuild } from "./chat-request.js";
import { type Run, settleFailure } from "./run.js";

/** Builds the engine request for a deployment. Throws ServiceError for what the deployment cannot do. */
export type BuildInput<Q> = (caps: Capabilities) => Q;

/** Calls the engine, and counts in the tally of the run what it read. */
type InputWork<Q, R> = (loaded: LoadedModel, request: Q & { readonly queueMs: number }) => Promise<R>;

/**
 * Runs and settles an admitted request that only reads its input, such as embeddings. It tries the model's deployments in
 * order of load and runs `work` in a slot of each, until one succeeds. `answer` builds the body once the work is done.
 * Does not wait for an engine that ignores its signal.
 */
export async function runInput<Q, R, M>(
  run: Run,
  build: BuildInput<Q>,
  work: InputWork<Q, R>,
  answer: (result: R) => M,
): Promise<Answer<M>> {
  const { call } = run;
  try {
    const { head, result } = await unlessStopped(workInTurn(run, build, work), call.stop);
    call.stage = "delivering";
    await run.end("completed");
    return { head, body: answer(result) };
  } catch (thrown) {
    throw await settleFailure(run, thrown);
  }
}

/**
 * One call of the engine. Sets the prompt tokens of the run: `before`, those of earlier calls, and the call's own, also
 * when it fails.
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

async function workInTurn<Q, R>(
  run: Run,
  build: BuildInput<Q>,
  work: InputWork<Q, R>,
): Promise<{ head: AnswerHead; result: R }> {
  const { call, model } = run;
  let attempts = 0;
  let queueMs = 0;
  const waited = (ms: number): void => {
    queueMs += ms;
    call.waited(queueMs);
  };
  try {
    const deployments = [...model.byLoad((caps) => canBuild(() => build(caps)))];
    for (let deployment = deployments.shift(); deployment !== undefined; deployment = deployments.shift()) {
      attempts += 1;
      try {
        const result = await workOn(deployment, run, build, work, waited);
        return { head: run.head(deployment.id, attempts, queueMs), result };
      } catch (thrown) {
        const error = serviceErrorOf(thrown);
        if (deployments.length === 0 || call.stop.aborted || !mayFailOver(error)) throw thrown;
        call.log.warn({ deployment: deployment.id, error: error.code }, "deployment failed, trying the next");
      }
    }
    invariant(false, "a catalog model has a deployment");
  } finally {
    run.engineEnded();
  }
}

async function workOn<Q, R>(
  deployment: Deployment,
  { call }: Run,
  build: BuildInput<Q>,
  work: InputWork<Q, R>,
  waited: (ms: number) => void,
): Promise<R> {
  call.stage = "queued";
  const loaded = deployment.model ?? (await deployment.onceLoaded(call.stop));
  const request = build(loaded.caps);
  const slot = await deployment.queue.acquire(call.principal, call.stop);
  try {
    call.stage = "running";
    waited(slot.queueMs);
    return await work(loaded, { ...request, queueMs: slot.queueMs });
  } finally {
    slot.release();
  }
}

/** Resolves with the work, or rejects as soon as the call ends: work that ignores the signal is not awaited. */
function unlessStopped<T>(work: Promise<T>, stop: AbortFlag): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(errorOfEnd(stop.reason));
    stop.addEventListener("abort", onAbort);
    const over = (): void => stop.removeEventListener("abort", onAbort);
    work.then(resolve, reject).finally(over);
  });
}
