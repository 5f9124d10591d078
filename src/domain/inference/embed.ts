import { create } from "@bufbuild/protobuf";
import {
  type EmbeddingList,
  EmbeddingListSchema,
  type EmbeddingParams,
} from "../../../gen/unified/inference/v1/embedding_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { type Answer, type AnswerHead, errorOfEnd } from "../call/call-context.js";
import {
  checkCount,
  checkInteger,
  checkLength,
  checkPresent,
  invariant,
  refuse,
  refuseValue,
} from "../call/service-error.js";
import type { Deployment } from "../catalog/catalog-model.js";
import { type Capabilities, type EmbedRequest, type EmbedResult, EngineError } from "../engine/engine.js";
import { mayFailOver, serviceErrorOf } from "../engine/engine-error.js";
import { canBuild, refuseUnlessAble, refuseUnlessTokenInput } from "./chat-request.js";
import { type Run, settleFailure } from "./run.js";
import { validateTokenLists } from "./validate-chat.js";

/** Validates an embeddings request as far as no model is needed. Throws ServiceError. */
export function validateEmbeddings(params: EmbeddingParams, limits: ServiceLimits): void {
  const { input, inputTokens } = params;
  checkPresent(params.model, "model");
  const count = input.length + inputTokens.length;
  if (count === 0) refuse("missing_required_parameter", "input", "'input' is required, but is missing or empty.");
  if (input.length > 0 && inputTokens.length > 0) {
    refuseValue("input", "'input' must be texts or token ids, but is both.");
  }
  checkCount(count, "input", limits.embeddingInputsMax);
  for (const [i, text] of input.entries()) {
    const at = count === 1 ? "input" : `input[${i}]`;
    if (text === "") refuseValue(at, `'${at}' must have at least 1 character, but is empty.`);
  }
  validateTokenLists(inputTokens, "input");
  checkInteger(params.dimensions, "dimensions", 1, fixedLimits.int32Max);
  checkLength(params.user, "user", fixedLimits.userCharsMax);
}

/** Builds the engine request of a valid embeddings request. Throws for what the model cannot do. */
export function toEmbedRequest(params: EmbeddingParams, caps: Capabilities): EmbedRequest {
  refuseUnlessTokenInput(caps.tokenInput || params.inputTokens.length === 0, "input", params.model);
  const inputs = params.input.length > 0 ? params.input : params.inputTokens.map((list) => list.ids);
  const dimensions = dimensionsToMake(params, caps);
  return dimensions === undefined ? { inputs } : { inputs, dimensions };
}

/** Undefined for the model's native size, which is always valid (EMB-8). */
function dimensionsToMake({ dimensions, model }: EmbeddingParams, caps: Capabilities): number | undefined {
  if (dimensions === undefined || dimensions === caps.embeddingDims) return undefined;
  refuseUnlessAble(caps.shortenableEmbeddings === true, "dimensions", model);
  if (caps.embeddingDims !== undefined && dimensions > caps.embeddingDims) {
    refuse(
      "integer_above_max_value",
      "dimensions",
      `'dimensions' must be at most ${caps.embeddingDims}, the length of the vectors of '${model}', but is ${dimensions}.`,
    );
  }
  return dimensions;
}

export type BuildEmbedRequest = (caps: Capabilities) => EmbedRequest;

/** Inputs per engine call, so that aborts are seen and other requests get slots during a batch of 2,048 (EMB-11). */
const inputsPerCall = 128;

/**
 * Runs and settles an admitted embeddings request. `build` throws ServiceError for what a deployment cannot do. It does not
 * wait for an engine that ignores its signal.
 */
export async function embed(run: Run, build: BuildEmbedRequest, tokensMax: number): Promise<Answer<EmbeddingList>> {
  const { call, model } = run;
  try {
    const { head, vectors } = await unlessStopped(embedInTurn(run, build, tokensMax), call.stop);
    call.stage = "delivering";
    await run.end("completed");
    return { head, body: embeddingList(model.id, vectors, run) };
  } catch (thrown) {
    throw await settleFailure(run, thrown);
  }
}

interface Embedded {
  readonly head: AnswerHead;
  readonly vectors: readonly Float32Array[];
}

/** Tries the model's deployments in order of load. */
async function embedInTurn(run: Run, build: BuildEmbedRequest, tokensMax: number): Promise<Embedded> {
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
        const vectors = await embedOn(deployment, run, build, tokensMax, waited);
        return { head: run.head(deployment.id, attempts, queueMs), vectors };
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

async function embedOn(
  deployment: Deployment,
  { call, tally }: Run,
  build: BuildEmbedRequest,
  tokensMax: number,
  waited: (ms: number) => void,
): Promise<Float32Array[]> {
  call.stage = "queued";
  const loaded = deployment.model ?? (await deployment.onceLoaded(call.stop));
  const { inputs, ...options } = build(loaded.caps);
  const slot = await deployment.queue.acquire(call.principal, call.stop);
  const { queueMs } = slot;
  try {
    call.stage = "running";
    waited(queueMs);
    const vectors: Float32Array[] = [];
    let promptTokens = 0;
    for (let from = 0; from < inputs.length; from += inputsPerCall) {
      if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
      const slice = { ...options, queueMs, inputs: inputs.slice(from, from + inputsPerCall) };
      let result: EmbedResult;
      try {
        result = await loaded.embed(slice, call.stop);
      } catch (thrown) {
        if (!(thrown instanceof EngineError)) throw thrown;
        tally.prompt(0, promptTokens + (thrown.usage?.promptTokens ?? 0), 0);
        throw withIndexesFrom(from, thrown);
      }
      promptTokens += result.promptTokens;
      tally.prompt(0, promptTokens, 0);
      for (const vector of result.vectors) requireFinite(vector);
      vectors.push(...result.vectors);
      if (promptTokens > tokensMax) {
        refuseValue(
          "input",
          `'input' has more than ${tokensMax} tokens in all, the most that one request may have. Send it in several requests.`,
        );
      }
    }
    return vectors;
  } finally {
    slot.release();
  }
}

/** Translates the index of an input in the slice to its index in the request. */
function withIndexesFrom(from: number, error: EngineError): EngineError {
  const { code, message, param, retryable, usage } = error;
  if (from === 0 || param === null) return error;
  const shift = (text: string): string =>
    text.replace(/input\[(\d+)\]/g, (_, index) => `input[${Number(index) + from}]`);
  const options = { param: shift(param), retryable, cause: error, ...(usage === null ? {} : { usage }) };
  return new EngineError(code, shift(message), options);
}

/** NaN would become null in JSON (EMB-5). */
function requireFinite(vector: Float32Array): void {
  for (const value of vector)
    if (!Number.isFinite(value)) throw new Error("the engine returned a vector with a number that is not finite");
}

function embeddingList(model: string, vectors: readonly Float32Array[], run: Run): EmbeddingList {
  const { promptTokens } = run.tally.total();
  return create(EmbeddingListSchema, {
    model,
    // The contract requires little-endian, the byte order of every platform of Node.
    data: vectors.map(({ buffer, byteOffset, byteLength }, index) => ({
      index,
      vector: new Uint8Array(buffer, byteOffset, byteLength),
    })),
    usage: { promptTokens, totalTokens: promptTokens },
  });
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
