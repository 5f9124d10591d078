import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TokenListSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { asInt32, asString, type JsonObject, missingField, wrongType } from "./json-object.js";

/** One of both is empty. */
export interface TextOrTokens {
  readonly texts: string[];
  readonly tokens: MessageInitShape<typeof TokenListSchema>[];
}

/**
 * The union of `prompt` and `input`: a text, texts, one list of token ids, or lists of token ids. What the first item
 * is, all must be.
 */
export function readTextOrTokens(body: JsonObject, key: string): TextOrTokens {
  const value = body.value(key);
  if (value === undefined) throw missingField(key);
  if (typeof value === "string") return { texts: [value], tokens: [] };
  if (!Array.isArray(value)) throw wrongType(key, "a string or an array of strings or token ids", value);
  const [first] = value;
  if (first === undefined) {
    throw new ServiceError("empty_array", `Invalid '${key}': at least 1 item is needed, but the array is empty.`, {
      param: key,
    });
  }
  if (typeof first === "number") return { texts: [], tokens: [{ ids: readIds(value, key) }] };
  if (Array.isArray(first)) {
    return { texts: [], tokens: value.map((item, i) => ({ ids: readIds(item, `${key}[${i}]`) })) };
  }
  return { texts: value.map((item, i) => asString(item, `${key}[${i}]`)), tokens: [] };
}

function readIds(value: unknown, path: string): number[] {
  if (!Array.isArray(value)) throw wrongType(path, "an array of token ids", value);
  return value.map((id, i) => asInt32(id, `${path}[${i}]`));
}
