import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type Completion,
  type CompletionLogprobs,
  type CompletionParams,
  CompletionParamsSchema,
  type TokenListSchema,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import { refuse } from "../../domain/call/service-error.js";
import { jsonString } from "../../lib/json-string.js";
import { asInt32, asString, type JsonObject, missingField, wrongType } from "../http/json-object.js";
import { readSampling, readStreaming, type Streaming, samplingFields, streamingFields } from "./read-chat.js";
import { ChunkFrames, finite, usageJson } from "./write-chat.js";

/** Reads the body of `POST /v1/completions`. Throws ServiceError. */
export function readCompletion(body: JsonObject): Streaming & { readonly params: CompletionParams } {
  const { texts, tokens } = readTextOrTokens(body, "prompt");
  const params = create(CompletionParamsSchema, {
    prompt: texts,
    promptTokens: tokens,
    logprobs: body.int32("logprobs"),
    echo: body.boolean("echo"),
    bestOf: body.int32("best_of"),
    suffix: body.string("suffix"),
    ...readSampling(body),
    passThroughJson: body.unknownFields(completionFields),
  });
  return { params, ...readStreaming(body) };
}

/** Fields of the body that are known. */
export const completionFields: ReadonlySet<string> = new Set([
  ...samplingFields,
  ...streamingFields,
  "prompt",
  "logprobs",
  "echo",
  "best_of",
  "suffix",
]);

/**
 * Reads `prompt` or `input`: one text, a list of texts, one list of token ids, or several lists of token ids. All items
 * must have the type of the first. At least one of the two lists in the result is empty.
 */
export function readTextOrTokens(
  body: JsonObject,
  key: string,
): { texts: string[]; tokens: MessageInitShape<typeof TokenListSchema>[] } {
  const value = body.value(key);
  if (value === undefined) return missingField(key);
  if (typeof value === "string") return { texts: [value], tokens: [] };
  if (!Array.isArray(value)) return wrongType(key, "a string or an array of strings or token ids", value);
  const [first] = value;
  if (first === undefined) {
    refuse("empty_array", key, `Invalid '${key}': at least 1 item is needed, but the array is empty.`);
  }
  if (typeof first === "number") return { texts: [], tokens: [{ ids: readIds(value, key) }] };
  if (Array.isArray(first)) {
    return { texts: [], tokens: value.map((item, i) => ({ ids: readIds(item, `${key}[${i}]`) })) };
  }
  return { texts: value.map((item, i) => asString(item, `${key}[${i}]`)), tokens: [] };
}

function readIds(value: unknown, path: string): number[] {
  if (!Array.isArray(value)) return wrongType(path, "an array of token ids", value);
  return value.map((id, i) => asInt32(id, `${path}[${i}]`));
}

/** The JSON of a whole text completion (CMPL-*). */
export function completionJson(completion: Completion): string {
  const { usage, systemFingerprint: fingerprint } = completion;
  return (
    `{"id":${jsonString(completion.id)},"object":"text_completion","created":${completion.created}` +
    `,"model":${jsonString(completion.model)},"choices":[${completion.choices.map(completionChoiceJson).join(",")}]` +
    (usage === undefined ? "" : `,"usage":${usageJson(usage)}`) +
    (fingerprint === "" ? "" : `,"system_fingerprint":${jsonString(fingerprint)}`) +
    "}"
  );
}

/** The writer of the events of one text completion stream, whose choices have no role and no delta (CMPL-6). */
export function completionFrames(includeUsage: boolean): ChunkFrames<AnyChoice> {
  const emptyJson = (index: number): string => completionChoiceJson({ text: "", index });
  return new ChunkFrames("text_completion", includeUsage, completionChoiceJson, emptyJson);
}

interface AnyChoice {
  readonly text: string;
  readonly index: number;
  readonly logprobs?: CompletionLogprobs | undefined;
  readonly finishReason?: string | undefined;
}

/** The JSON of a choice of a chunk or of a whole text completion; both have the same form. */
function completionChoiceJson({ text, index, logprobs, finishReason }: AnyChoice): string {
  const logprobsJson = logprobs === undefined ? "null" : completionLogprobsJson(logprobs);
  const reason = finishReason === undefined ? "null" : jsonString(finishReason);
  return `{"text":${jsonString(text)},"index":${index},"logprobs":${logprobsJson},"finish_reason":${reason}}`;
}

/** Log probabilities in the form of text completions: four lists of equal length. Concatenated for speed: lists are long. */
function completionLogprobsJson({ tokens, tokenLogprobs, topLogprobs, textOffset }: CompletionLogprobs): string {
  // The core sets NaN for the first token of an echoed prompt, which has no probability (CMPL-8).
  const isFirst = (i: number): boolean => Number.isNaN(tokenLogprobs[i]);
  const logprobs = tokenLogprobs.map((value, i) => (isFirst(i) ? "null" : finite(value)));
  const alternatives = topLogprobs.map((top, i) => (isFirst(i) ? "null" : alternativesJson(top.logprobs)));
  return (
    `{"tokens":[${tokens.map(jsonString).join()}],"token_logprobs":[${logprobs.join()}]` +
    `,"top_logprobs":[${alternatives.join()}],"text_offset":[${textOffset.join()}]}`
  );
}

function alternativesJson(logprobs: Readonly<Record<string, number>>): string {
  const members = Object.entries(logprobs).map(([token, value]) => `${jsonString(token)}:${finite(value)}`);
  return `{${members.join()}}`;
}
