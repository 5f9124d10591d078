import type { IdSource } from "../../../domain/call/ports.js";
import { checkOneOf, refuse, ServiceError } from "../../../domain/call/service-error.js";
import type { ResponseCaller, ResponseItem, StoredResponses } from "../../../domain/responses/stored-responses.js";
import type { Call, Exchange } from "../../http/call.js";
import { JsonObject } from "../../http/json-object.js";
import { JsonSource } from "../../http/json-scan.js";
import { queryOf } from "../../http/routes.js";

/** Error message when the setting `responses.keep` is 0. */
const isOff = "This service does not store responses: responses.keep is 0.";

/** Handles one operation on a stored response. */
type Handler = (call: Call, exchange: Exchange, id: string) => Promise<void>;

/** The handlers of stored responses. `stored` null: this service stores no responses. */
export function createStoredResponseHandlers(
  stored: StoredResponses | null,
): Record<"get" | "delete" | "list", Handler> {
  const required = (): StoredResponses => {
    if (stored === null) throw new ServiceError("not_found", isOff);
    return stored;
  };
  return {
    async get(call, exchange, id) {
      const responses = required();
      const isStream = queryOf(exchange.req.url ?? "").get("stream");
      checkOneOf(isStream ?? undefined, "stream", ["true", "false"]);
      if (isStream === "true") {
        refuse("unsupported_parameter", "stream", "A stored response cannot be streamed: leave out 'stream'.");
      }
      exchange.json(200, await responses.get(id, call.ctx));
    },

    async delete(call, exchange, id) {
      await required().delete(id, call.ctx);
      exchange.json(200, { id, object: "response", deleted: true });
    },

    async list(call, exchange, id) {
      const responses = required();
      const query = readListQuery(queryOf(exchange.req.url ?? ""));
      exchange.json(200, pageOf(await responses.inputOf(id, call.ctx), query));
    },
  };
}

interface ListQuery {
  readonly limit: number;
  readonly isNewestFirst: boolean;
  /** Id of the last item of the previous page; null: the first page is requested. */
  readonly after: string | null;
}

const limitDefault = 20;
const limitMax = 100;

function readListQuery(query: URLSearchParams): ListQuery {
  const limit = query.get("limit") ?? String(limitDefault);
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > limitMax) {
    refuse("invalid_value", "limit", `'limit' must be a whole number from 1 to ${limitMax}.`);
  }
  const order = query.get("order") ?? "desc";
  checkOneOf(order, "order", ["asc", "desc"]);
  return { limit: Number(limit), isNewestFirst: order === "desc", after: query.get("after") };
}

/** One page of a list. `items`: all items, oldest first. */
function pageOf(items: readonly ResponseItem[], { limit, isNewestFirst, after }: ListQuery): object {
  const ordered = isNewestFirst ? items.toReversed() : items;
  const last = after === null ? -1 : ordered.findIndex(({ id }) => id === after);
  if (after !== null && last === -1) refuse("invalid_value", "after", "'after' is not the id of an item of this list.");
  const data = ordered.slice(last + 1, last + 1 + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: last + 1 + limit < ordered.length,
  };
}

const previousId = "previous_response_id";

/** The items of the responses that a request continues, oldest first; empty without `previous_response_id`. */
export async function readEarlierItems(
  stored: StoredResponses,
  body: JsonObject,
  caller: ResponseCaller,
): Promise<readonly JsonObject[]> {
  const id = body.string(previousId);
  if (id === undefined) return [];
  const input = body.value("input");
  const items = await stored.itemsBefore(id, Array.isArray(input) ? input.length : 1, caller);
  // An object whose path is `previous_response_id[n]`: errors name an item by its index in this list.
  const list = { [previousId]: items };
  return JsonObject.ofBody(list, () => new JsonSource(JSON.stringify(list))).objects(previousId) ?? [];
}

const idPrefixes: ReadonlyMap<unknown, string> = new Map([
  ["message", "msg_"],
  ["function_call", "fc_"],
  ["function_call_output", "fco_"],
  ["reasoning", "rs_"],
]);

/**
 * The form in which the input of a request is stored, which is OpenAI's form of a list of input items: each has a `type` and
 * an `id`, and texts are parts. `input` was validated before, so its items have valid types.
 */
export function storedInput(input: string | readonly ResponseItem[], ids: IdSource): readonly ResponseItem[] {
  const items = typeof input === "string" ? [{ role: "user", content: input }] : input;
  return items.map((item: ResponseItem) => {
    const { id, type = "message", content, ...rest } = item;
    const prefix = idPrefixes.get(type) ?? "item_";
    return {
      id: typeof id === "string" && id !== "" ? id : ids.text(prefix),
      type,
      ...rest,
      ...(content !== undefined && {
        content: typeof content === "string" ? [partOf(content, item["role"])] : content,
      }),
    };
  });
}

function partOf(text: string, role: unknown): object {
  return role === "assistant" ? { type: "output_text", text, annotations: [] } : { type: "input_text", text };
}
