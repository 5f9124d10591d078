import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { isSameList } from "../../lib/collections.js";

/** A model with OpenAI's four fields and the additional fields of this service (MODEL-10). */
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

/** Number of written lists that are kept: most callers see all models, others see only the models of their keys. */
const writtenMax = 8;

interface WrittenList {
  readonly models: readonly Model[];
  readonly json: Buffer;
}

/**
 * Returns the function that writes the list of models. Clients poll the list, and writing 2,000 models takes milliseconds.
 * So the last written lists are kept as bytes, and used again for a list of the same model objects (E-35).
 */
export function createModelListWriter(): (models: readonly Model[]) => Buffer {
  let written: readonly WrittenList[] = [];
  return (models) => {
    const known = written.find((list) => isSameList(list.models, models));
    if (known !== undefined) return known.json;
    const json = Buffer.from(JSON.stringify({ object: "list", data: models.map(modelToJson) }));
    written = [{ models, json }, ...written.slice(0, writtenMax - 1)];
    return json;
  };
}
