import { isAscii, isUtf8 } from "node:buffer";
import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { isPlainlySmall, type JsonMax, scanJson } from "../../lib/json-scan.js";
import { JsonObject } from "./json-object.js";

/**
 * The JSON object that a request body holds. Size is measured before anything is built from it (SEC-9), and
 * keys that could reach a prototype are refused wherever they stand (SEC-11). Throws ServiceError `invalid_json`, or
 * `invalid_type` when the body is JSON but no object.
 */
export function parseJsonBody(body: Buffer, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): JsonObject {
  const bytes = hasByteOrderMark(body) ? body.subarray(3) : body;
  if (bytes.length === 0) throw new ServiceError("invalid_json", "The body is empty; a JSON object is needed.");
  const text = decode(bytes);
  const max = { depth: limits.jsonDepthMax, tokens: limits.jsonTokensMax };
  if (!isPlainlySmall(text, max)) checkSize(bytes, max);
  const value = parse(text);
  if (maySpellForbiddenKey(text)) refuseForbiddenKeys(value);
  return JsonObject.ofBody(value, text);
}

/** ASCII is most bodies, and is copied instead of decoded. */
function decode(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString("latin1");
  if (isUtf8(bytes)) return bytes.toString("utf8");
  throw new ServiceError("invalid_json", "The body is not valid UTF-8.");
}

function hasByteOrderMark(body: Buffer): boolean {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
}

function checkSize(bytes: Buffer, max: JsonMax): void {
  switch (scanJson(bytes, max)) {
    case "too_deep":
      throw new ServiceError("invalid_json", `The body is nested deeper than ${max.depth} levels.`);
    case "too_many_tokens":
      throw new ServiceError("invalid_json", `The body has more than ${max.tokens} JSON values, keys and brackets.`);
    case "ok":
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser quotes the body in its message; only the position is passed on.
    const position = /at position (\d+)/.exec(String(error))?.[1];
    const where = position === undefined ? "" : ` (at position ${position})`;
    throw new ServiceError("invalid_json", `The body is not valid JSON${where}.`, { cause: error });
  }
}

/** An escape can spell any key; without one the words stand in the text as they are, and both hold this part. */
function maySpellForbiddenKey(text: string): boolean {
  return text.includes("proto") || text.includes("\\u");
}

/** Recursion is safe: the depth was measured. */
function refuseForbiddenKeys(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) refuseForbiddenKeys(item);
    return;
  }
  for (const [key, child] of Object.entries(value)) {
    const isForbidden = key === "__proto__" || (key === "constructor" && hasOwnPrototype(child));
    if (isForbidden) throw new ServiceError("invalid_json", `The key '${key}' is not allowed in a body.`);
    refuseForbiddenKeys(child);
  }
}

function hasOwnPrototype(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}
