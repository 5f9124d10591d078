import { isUtf8 } from "node:buffer";
import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../../domain/service-error.js";
import { scanJson } from "../../lib/json-scan.js";
import { JsonObject } from "./json-object.js";

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The JSON object that a request body holds. Size is measured on the raw bytes before anything is built (SEC-9), and
 * keys that could reach a prototype are refused wherever they stand (SEC-11). Throws ServiceError `invalid_json`, or
 * `invalid_type` when the body is JSON but no object.
 */
export function parseJsonBody(body: Buffer, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): JsonObject {
  const bytes = body.subarray(0, 3).equals(byteOrderMark) ? body.subarray(3) : body;
  if (bytes.length === 0) throw new ServiceError("invalid_json", "The body is empty; a JSON object is needed.");
  if (!isUtf8(bytes)) throw new ServiceError("invalid_json", "The body is not valid UTF-8.");
  checkSize(bytes, limits);
  const text = bytes.toString("utf8");
  const value = parse(text);
  if (maySpellForbiddenKey(text)) refuseForbiddenKeys(value);
  return JsonObject.ofBody(value, text);
}

function checkSize(bytes: Buffer, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): void {
  switch (scanJson(bytes, { depth: limits.jsonDepthMax, tokens: limits.jsonTokensMax })) {
    case "too_deep":
      throw new ServiceError("invalid_json", `The body is nested deeper than ${limits.jsonDepthMax} levels.`);
    case "too_many_tokens":
      throw new ServiceError(
        "invalid_json",
        `The body has more than ${limits.jsonTokensMax} JSON values, keys and brackets.`,
      );
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

/** An escape can spell any key; without one the words stand in the text as they are. */
function maySpellForbiddenKey(text: string): boolean {
  return text.includes("__proto__") || text.includes("prototype") || text.includes("\\u");
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
