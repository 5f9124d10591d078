import { ServiceError } from "../../domain/call/service-error.js";
import type { UsageBucket, UsagePage, UsageQuery, UsageResult } from "../../domain/metering/usage-queries.js";
import type { UsageGroup } from "../../domain/metering/usage-store.js";
import { Turns } from "../../lib/clock.js";
import { jsonString } from "../../lib/json-string.js";
import { queryOf } from "../http/routes.js";

const groups: ReadonlyMap<string, UsageGroup> = new Map([
  ["model", "model"],
  ["key", "key"],
  /** OpenAI's name for keys. */
  ["api_key_id", "key"],
  ["operation", "operation"],
]);

/**
 * Reads the query of `/v1/usage`, which has OpenAI's names. A list is separated by commas, or its parameter is repeated, also
 * with the suffix `[]`. Throws ServiceError.
 */
export function readUsageQuery(url: string): UsageQuery {
  const query = queryOf(url);
  return {
    account: "",
    startMs: readTime(query, "start_time"),
    endMs: readTime(query, "end_time"),
    width: readWidth(query),
    groupBy: readGroups(query),
    limit: readInteger(query, "limit"),
    page: query.get("page") ?? "",
  };
}

/** Reads Unix seconds and returns milliseconds. */
function readTime(query: URLSearchParams, name: string): number | null {
  const seconds = readInteger(query, name);
  return seconds === null ? null : seconds * 1_000;
}

function readInteger(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null || text === "") return null;
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw invalid(name, `'${name}' must be a whole number.`);
}

function readWidth(query: URLSearchParams): "hour" | "day" {
  const text = query.get("bucket_width") ?? "1d";
  if (text === "1d") return "day";
  if (text === "1h") return "hour";
  throw invalid("bucket_width", "'bucket_width' must be 1h or 1d.");
}

function readGroups(query: URLSearchParams): readonly UsageGroup[] {
  const names = [...query.getAll("group_by"), ...query.getAll("group_by[]")].flatMap((text) => text.split(","));
  return names
    .filter((name) => name !== "")
    .map((name) => {
      const group = groups.get(name);
      if (group === undefined)
        throw invalid("group_by", "'group_by' takes model, key and operation, separated by commas.");
      return group;
    });
}

function invalid(param: string, message: string): ServiceError {
  return new ServiceError("invalid_value", message, { param });
}

/**
 * A page of usage in the shape of OpenAI's usage API. Sums are integers of any size, written digit by digit, because a
 * JavaScript number would round values beyond 2^53 (USE-9).
 */
export async function usagePageJson({ buckets, next }: UsagePage): Promise<string> {
  const turns = new Turns();
  const data: string[] = [];
  for (const bucket of buckets) {
    data.push(bucketJson(bucket));
    await turns.next();
  }
  return `{"object":"page","data":[${data.join(",")}],"has_more":${next !== null},"next_page":${JSON.stringify(next)}}`;
}

function bucketJson({ startMs, endMs, results }: UsageBucket): string {
  const times = `"start_time":${Math.floor(startMs / 1_000)},"end_time":${Math.floor(endMs / 1_000)}`;
  return `{"object":"bucket",${times},"results":[${results.map(resultJson).join(",")}]}`;
}

function resultJson(result: UsageResult): string {
  const sums =
    `"input_tokens":${result.promptTokens},"output_tokens":${result.completionTokens},` +
    `"input_cached_tokens":${result.cachedTokens},"num_model_requests":${result.requests},` +
    `"cost_nano_dollars":${result.costNano}`;
  const { model, keyId, operation } = result;
  const names = `"model":${stringOrNull(model)},"api_key_id":${stringOrNull(keyId)},"operation":${stringOrNull(operation)}`;
  return `{"object":"usage.result",${sums},${names}}`;
}

function stringOrNull(text: string | null): string {
  return text === null ? "null" : jsonString(text);
}
