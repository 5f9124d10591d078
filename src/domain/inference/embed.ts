import { create } from "@bufbuild/protobuf";
import { type EmbeddingList, EmbeddingListSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { Call } from "../call/call.js";
import type { Answer, AnswerHead } from "../call/call-context.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { invariant, ServiceError } from "../call/service-error.js";
import type { CatalogModel, Deployment } from "../catalog/catalog-model.js";
import { type EmbedRequest, type EmbedResult, EngineError, type LoadedModel } from "../engine/engine.js";
import { mayGoElsewhere, serviceErrorOf } from "../engine/engine-error.js";
import type { Admitted } from "../metering/ledger.js";
import { answerHead } from "../metering/limit-response.js";
import { settleFailure } from "./deliver.js";
import type { Run } from "./run.js";

/** Inputs per engine call, so that aborts are seen and other requests get slots during a batch of 2,048 (EMB-11). */
const inputsPerCall = 128;

export interface EmbedDeps {
  readonly clock: Clock;
  readonly limits: ServiceLimits;
}

export interface EmbedPlan {
  readonly call: Call;
  readonly run: Run;
  readonly model: CatalogModel;
  readonly request: EmbedRequest;
  readonly admission: Admitted;
}

/** Runs and settles an admitted embeddings request. It does not wait for an engine that ignores its signal. */
export async function embed(deps: EmbedDeps, plan: EmbedPlan): Promise<Answer<EmbeddingList>> {
  const { call, run, model, admission } = plan;
  try {
    const { vectors, ...head } = await unlessStopped(embedInTurn(deps, plan), call.stop);
    call.stage = "delivering";
    await run.end("completed");
    return { head: answerHead(head, admission), body: embeddingList(model.id, vectors, run) };
  } catch (thrown) {
    throw await settleFailure(call, run, thrown);
  }
}

interface Embedded extends Pick<AnswerHead, "deployment" | "attempts" | "queueMs"> {
  readonly vectors: readonly Float32Array[];
}

/** Tries the model's deployments in order of load. */
async function embedInTurn(deps: EmbedDeps, { model, ...plan }: EmbedPlan): Promise<Embedded> {
  const { call, run } = plan;
  let attempts = 0;
  let queueMs = 0;
  const waited = (ms: number): void => {
    queueMs += ms;
    call.waited(queueMs);
  };
  try {
    const deployments = [...model.byLoad()];
    for (let deployment = deployments.shift(); deployment !== undefined; deployment = deployments.shift()) {
      attempts += 1;
      try {
        const vectors = await embedOn(deployment, deps, plan, waited);
        return { deployment: deployment.id, attempts, queueMs, vectors };
      } catch (thrown) {
        const error = serviceErrorOf(thrown);
        if (deployments.length === 0 || call.stop.aborted || !mayGoElsewhere(error)) throw thrown;
        call.log.warn({ deployment: deployment.id, error: error.code }, "deployment failed, trying the next");
      }
    }
    invariant(false, "a catalog model has a deployment");
  } finally {
    run.engineEnded();
  }
}

async function embedOn(
  deployment: Deployment,
  deps: EmbedDeps,
  plan: Omit<EmbedPlan, "model">,
  waited: (ms: number) => void,
): Promise<Float32Array[]> {
  const { call } = plan;
  call.stage = "queued";
  const loaded = deployment.model ?? (await deployment.onceLoaded(call.stop));
  const slot = await deployment.queue.acquire(call.principal, call.stop);
  try {
    call.stage = "running";
    waited(slot.queueMs);
    return await embedInSlices(deps, { ...plan, request: { ...plan.request, queueMs: slot.queueMs } }, loaded);
  } finally {
    slot.release();
  }
}

async function embedInSlices(
  deps: EmbedDeps,
  plan: Omit<EmbedPlan, "model">,
  loaded: LoadedModel,
): Promise<Float32Array[]> {
  const { call, run, request } = plan;
  const vectors: Float32Array[] = [];
  let promptTokens = 0;
  for (let from = 0; from < request.inputs.length; from += inputsPerCall) {
    if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
    const slice = { ...request, inputs: request.inputs.slice(from, from + inputsPerCall) };
    const result = await embedSlice(loaded, slice, from, call.stop).catch((thrown: unknown) => {
      if (thrown instanceof EngineError) run.tally.prompt(0, promptTokens + (thrown.usage?.promptTokens ?? 0), 0);
      throw thrown;
    });
    promptTokens += result.promptTokens;
    run.tally.prompt(0, promptTokens, 0);
    for (const vector of result.vectors) requireFinite(vector);
    vectors.push(...result.vectors);
    refuseAbove(deps.limits.embeddingTokensMax, promptTokens);
  }
  return vectors;
}

/** Translates the index of an input in the slice to its index in the request. */
async function embedSlice(
  loaded: LoadedModel,
  slice: EmbedRequest,
  from: number,
  signal: AbortFlag,
): Promise<EmbedResult> {
  try {
    return await loaded.embed(slice, signal);
  } catch (thrown) {
    if (from === 0 || !(thrown instanceof EngineError) || thrown.param === null) throw thrown;
    const shift = (text: string): string =>
      text.replace(/input\[(\d+)\]/g, (_, index) => `input[${Number(index) + from}]`);
    const { code, message, param, retryable, usage } = thrown;
    throw new EngineError(code, shift(message), {
      param: shift(param),
      retryable,
      cause: thrown,
      ...(usage === null ? {} : { usage }),
    });
  }
}

function refuseAbove(tokensMax: number, tokens: number): void {
  if (tokens <= tokensMax) return;
  throw new ServiceError(
    "invalid_value",
    `'input' has more than ${tokensMax} tokens in all, the most that one request may have. Send it in several requests.`,
    { param: "input" },
  );
}

/** NaN would become null in JSON (EMB-5). */
function requireFinite(vector: Float32Array): void {
  for (const value of vector)
    if (!Number.isFinite(value)) throw new Error("the engine made a vector with a number that is not finite");
}

function embeddingList(model: string, vectors: readonly Float32Array[], run: Run): EmbeddingList {
  const { promptTokens } = run.tally.total();
  return create(EmbeddingListSchema, {
    model,
    data: vectors.map((vector, index) => ({ index, vector: littleEndian(vector) })),
    usage: { promptTokens, totalTokens: promptTokens },
  });
}

/** Every platform of Node is little-endian, as the contract asks. */
function littleEndian(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
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
