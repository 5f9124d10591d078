import type { EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { ServiceError } from "../call/service-error.js";
import type { Capabilities, EmbedRequest } from "../engine/engine.js";
import { refuseUnlessAble } from "./sampling-request.js";
import { refuseUnlessTokenInput } from "./token-input.js";

/** What the engine is asked for a valid embeddings request. Refuses what this model cannot do. */
export function toEmbedRequest(params: EmbeddingParams, caps: Capabilities): EmbedRequest {
  refuseUnlessTokenInput(caps.tokenInput || params.inputTokens.length === 0, "input", params.model);
  const inputs = params.input.length > 0 ? params.input : params.inputTokens.map((list) => list.ids);
  const dimensions = dimensionsToMake(params, caps);
  return dimensions === undefined ? { inputs } : { inputs, dimensions };
}

/** Undefined: the model's own, which may always be asked for by number (EMB-8). */
function dimensionsToMake({ dimensions, model }: EmbeddingParams, caps: Capabilities): number | undefined {
  if (dimensions === undefined || dimensions === caps.embeddingDims) return undefined;
  refuseUnlessAble(caps.shortenableEmbeddings === true, "dimensions", model);
  if (caps.embeddingDims !== undefined && dimensions > caps.embeddingDims) {
    throw new ServiceError(
      "integer_above_max_value",
      `'dimensions' must be at most ${caps.embeddingDims}, the length of the vectors of '${model}', but is ${dimensions}.`,
      { param: "dimensions" },
    );
  }
  return dimensions;
}
