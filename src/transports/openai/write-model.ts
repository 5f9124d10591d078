import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";

/** A model with OpenAI's four fields and ours beside them (MODEL-10). */
export function modelToJson(model: Model): object {
  return {
    id: model.id,
    object: "model",
    created: Number(model.created),
    owned_by: model.ownedBy,
    context_length: model.contextLength,
    capabilities: model.capabilities,
    ...(model.dimensions !== undefined && { dimensions: model.dimensions }),
    ...(model.toolCalling !== undefined && { tool_calling: model.toolCalling }),
  };
}
