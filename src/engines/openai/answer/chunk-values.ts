import type { FinishReason } from "../../../domain/engine/engine.js";
import { isObject, rememberLast } from "../../../lib/json-string.js";
import { InvalidResponse } from "../protocol/upstream-failure.js";

/** Reads the values of a chunk, in the spellings of all servers. */
export type Json = Readonly<Record<string, unknown>>;

/** The text with U+FFFD in place of each lone surrogate. */
export function wellFormed(text: string): string {
  return text.toWellFormed();
}

export function indexOf(choice: Json): number {
  return Number.isInteger(choice["index"]) ? Number(choice["index"]) : 0;
}

export function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Reads content that is a string or Mistral's list of parts: texts are joined, and thinking is returned separately. */
export function contentOf(content: unknown): { readonly text: string; readonly thinking: string } {
  if (!Array.isArray(content)) return { text: stringOf(content), thinking: "" };
  let text = "";
  let thinking = "";
  for (const part of content.filter(isObject)) {
    text += stringOf(part["text"]);
    const inner: unknown = part["thinking"];
    thinking += Array.isArray(inner) ? contentOf(inner).text : stringOf(inner);
  }
  return { text, thinking };
}

const reasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  max_tokens: "length",
  model_length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter",
  safety: "content_filter",
};

/** The finish reason; null: not finished. Throws InvalidResponse if the server ended the answer with an error. */
export function finishReasonOf(value: unknown): FinishReason | null {
  const name = stringOf(value).toLowerCase();
  if (name === "") return null;
  if (name === "error" || name === "abort") throw new InvalidResponse(`the upstream ended the answer with '${name}'`);
  return Object.hasOwn(reasons, name) ? (reasons[name] ?? "stop") : "stop";
}

const fingerprintCharsMax = 64;

/** The fingerprint in printable ASCII without the prefix `fp_`, which is added to all fingerprints later. */
export const fingerprintOf = rememberLast((value: unknown): string | null => {
  const text = stringOf(value)
    .replace(/[^\x21-\x7e]/g, "")
    .replace(/^fp_/, "");
  return text === "" ? null : text.slice(0, fingerprintCharsMax);
});

/** Type and code of an error in a stream, without its message, which may repeat the prompt. */
export function errorKind(chunk: Json): string {
  const error = isObject(chunk["error"]) ? chunk["error"] : chunk;
  const kind = [error["type"], error["code"]].filter((part) => typeof part === "string" || typeof part === "number");
  return kind.join(" ").slice(0, 100) || "without a type";
}
