import type { TokenLogprob, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";

/** Log probability that stands for minus infinity, which JSON cannot express (RESP-9). */
const never = -9_999;

/**
 * Log probabilities in either form: chat's `{ content: [{ token, logprob, bytes, top_logprobs }] }`, which llama.cpp sends for
 * text completions too, or the lists of text completions. `topMax`: alternatives per position that the request asked for.
 * `isEchoed`: the server puts the prompt before the text, so the first token may have none (CMPL-8).
 */
export function readLogprobs(value: unknown, topMax: number, isEchoed = false): readonly TokenLogprobInfo[] {
  if (!isObject(value)) return [];
  const { content, tokens } = value;
  if (Array.isArray(content)) {
    return content
      .filter((entry) => isObject(entry) && !isControl(entry))
      .map((entry) => ({ ...tokenOf(entry), top: topOf(entry["top_logprobs"], topMax) }));
  }
  if (!Array.isArray(tokens)) return [];
  const positions = tokens.map((token: unknown, i) => positionOf(value, token, i, topMax));
  const [first, ...others] = positions;
  const followsNothing = isEchoed && first !== undefined && isNullAt(value["token_logprobs"], 0);
  return followsNothing ? [{ ...first, logprob: Number.NaN }, ...others] : positions;
}

/** Whether a token has no text, such as the token that ends an answer of llama.cpp; it is left out. */
function isControl({ token, bytes }: Entry): boolean {
  return token === "" && Array.isArray(bytes) && bytes.length === 0;
}

type Entry = Readonly<Record<string, unknown>>;

function topOf(list: unknown, topMax: number): readonly TokenLogprob[] {
  return Array.isArray(list) ? list.filter(isObject).slice(0, topMax).map(tokenOf) : [];
}

function tokenOf(entry: Entry): TokenLogprob {
  const token = textOf(entry["token"]);
  const bytes = entry["bytes"];
  const own = { token, logprob: numberOf(entry["logprob"]) };
  return isBytes(bytes) && !Buffer.from(token).equals(Uint8Array.from(bytes)) ? { ...own, bytes } : own;
}

/** Reads one position from the lists of text completions; the alternatives are an object of log probabilities by token. */
function positionOf(lists: Entry, token: unknown, i: number, topMax: number): TokenLogprobInfo {
  const { token_logprobs: logprobs, top_logprobs: tops } = lists;
  const top: unknown = Array.isArray(tops) ? tops[i] : null;
  const alternatives = isObject(top) ? Object.entries(top) : [];
  return {
    token: textOf(token),
    logprob: numberOf(Array.isArray(logprobs) ? logprobs[i] : null),
    top: alternatives
      .map(([name, logprob]) => ({ token: name, logprob: numberOf(logprob) }))
      .sort((a, b) => b.logprob - a.logprob)
      .slice(0, topMax),
  };
}

function isNullAt(list: unknown, i: number): boolean {
  return Array.isArray(list) && list[i] === null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(never, value) : never;
}

function isBytes(value: unknown): value is readonly number[] {
  return (
    Array.isArray(value) &&
    value.every((byte: unknown) => Number.isInteger(byte) && Number(byte) >= 0 && Number(byte) < 256)
  );
}
