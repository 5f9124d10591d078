import type { EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { checkCount, checkInteger, checkLength, checkPresent, refuse } from "../call/field-checks.js";
import { validateTokenLists } from "./validate-token-lists.js";

/**
 * The rules of an embeddings request that hold for every model. What depends on the model is `toEmbedRequest`'s. Throws
 * ServiceError.
 */
export function validateEmbeddings(params: EmbeddingParams, limits: ServiceLimits): void {
  const { input, inputTokens } = params;
  checkPresent(params.model, "model");
  const count = input.length + inputTokens.length;
  if (count === 0) refuse("missing_required_parameter", "input", "'input' is required, but is missing or empty.");
  if (input.length > 0 && inputTokens.length > 0) {
    refuse("invalid_value", "input", "'input' must be texts or token ids, but is both.");
  }
  checkCount(count, "input", limits.embeddingInputsMax);
  for (const [i, text] of input.entries()) {
    const at = count === 1 ? "input" : `input[${i}]`;
    if (text === "") refuse("invalid_value", at, `'${at}' must have at least 1 character, but is empty.`);
  }
  validateTokenLists(inputTokens, "input");
  checkInteger(params.dimensions, "dimensions", 1, fixedLimits.int32Max);
  checkLength(params.user, "user", fixedLimits.userCharsMax);
}
