import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { refuseValue } from "../../domain/call/service-error.js";
import { queryOf } from "../http/routes.js";

const limitDefault = 20;
const limitMax = 1_000;

/** The requested part of the list; at most one of the ids is set. */
interface ModelPage {
  readonly limit: number;
  readonly afterId: string | null;
  readonly beforeId: string | null;
}

/** Reads the query of `GET /v1/models` (ANT-6). Throws ServiceError. */
export function readModelPage(url: string): ModelPage {
  const query = queryOf(url);
  const afterId = query.get("after_id");
  const beforeId = query.get("before_id");
  if (afterId !== null && beforeId !== null) {
    refuseValue("before_id", "'before_id' and 'after_id' exclude each other, but both are given.");
  }
  return { limit: readLimit(query.get("limit")), afterId, beforeId };
}

function readLimit(text: string | null): number {
  if (text === null) return limitDefault;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= limitMax) return limit;
  return refuseValue("limit", `'limit' must be a whole number from 1 to ${limitMax}.`);
}

/** One page of the models, sorted by id. `has_more`: whether more models follow in the direction of the request. */
export function modelPageJson(models: readonly Model[], { limit, afterId, beforeId }: ModelPage): object {
  const rest = models.filter(({ id }) => (afterId === null || id > afterId) && (beforeId === null || id < beforeId));
  const data = beforeId === null ? rest.slice(0, limit) : rest.slice(-limit);
  return {
    data: data.map(modelJson),
    has_more: rest.length > limit,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}

/** A model in Anthropic's form. Models have no display name, so the id is used. */
export function modelJson({ id, created, contextLength }: Model): object {
  return {
    type: "model",
    id,
    display_name: id,
    created_at: new Date(Number(created) * 1_000).toISOString(),
    max_input_tokens: contextLength === 0 ? null : contextLength,
  };
}
