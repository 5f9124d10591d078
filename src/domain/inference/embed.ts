import { create } from "@bufbuild/protobuf";
import {
  type EmbeddingList,
  EmbeddingListSchema,
  type EmbeddingParams,
} from "../../../gen/unified/inference/v1/embedding_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { type Answer, errorOfEnd } from "../call/call-context.js";
import { checkCount, checkInteger, checkLength, checkPresent, refuse, refuseValue } from "../call/service-error.js";
import {
  type Capabilities,
  type EmbedRequest,
  EngineError,
  isFiniteVector,
  type LoadedModel,
} from "../engine/engine.js";
import { refuseUnlessAble, refuseUnlessTokenInput } from "./chat-request.js";
import type { AdmittedRequest } from "./fallbacks.js";
import { type BuildInput, runInput, tallied } from "./input-run.js";
import type { Run } from "./run.js";
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

/** Builds the engine request of a valid embeddings request. Throws for a feature that the model does not support. */
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

/**
 * Inputs per engine call, so that a batch of 2,048 inputs can be aborted and other requests get slots while it runs
 * (EMB-11).
 */
const inputsPerCall = 128;

/**
 * Runs and settles an admitted embeddings request. `build` throws ServiceError for a feature that the deployment does not
 * support.
 */
export function embed(
  admitted: AdmittedRequest<EmbedRequest>,
  build: BuildInput<EmbedRequest>,
  tokensMax: number,
): Promise<Answer<EmbeddingList>> {
  const { run } = admitted;
  return runInput(
    admitted,
    build,
    (loaded, request) => vectorsOf(run, loaded, request, tokensMax),
    (vectors) => embeddingList(run.requestedModel.id, vectors, run),
  );
}

async function vectorsOf(
  run: Run,
  loaded: LoadedModel,
  request: EmbedRequest,
  tokensMax: number,
): Promise<Float32Array[]> {
  const { stop } = run.call;
  const vectors: Float32Array[] = [];
  let promptTokens = 0;
  const { inputs } = request;
  for (let from = 0; from < inputs.length; from += inputsPerCall) {
    if (stop.aborted) throw errorOfEnd(stop.reason);
    const isWhole = inputs.length <= inputsPerCall;
    const slice = isWhole ? request : { ...request, inputs: inputs.slice(from, from + inputsPerCall) };
    const result = await tallied(run, promptTokens, () => loaded.embed(slice, stop)).catch((thrown: unknown) => {
      throw thrown instanceof EngineError ? withIndexesFrom(from, thrown) : thrown;
    });
    promptTokens += result.promptTokens;
    // NaN would become null in JSON (EMB-5).
    if (!result.vectors.every(isFiniteVector)) {
      throw new Error("the engine returned a vector with a number that is not finite");
    }
    vectors.push(...result.vectors);
    if (promptTokens > tokensMax) {
      refuseValue(
        "input",
        `'input' has more than ${tokensMax} tokens in all, the most that one request may have. Send it in several requests.`,
      );
    }
  }
  return vectors;
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
