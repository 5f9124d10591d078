import { create } from "@bufbuild/protobuf";
import { type CompletionParams, CompletionParamsSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { JsonObject } from "./json-object.js";
import { readSampling, samplingFields } from "./read-sampling.js";
import { readStreaming, type Streaming, streamingFields } from "./read-streaming.js";
import { readTextOrTokens } from "./read-text-or-tokens.js";

export interface CompletionCall extends Streaming {
  readonly params: CompletionParams;
}

/** Reads the body of `POST /v1/completions`. Throws ServiceError. */
export function readCompletion(body: JsonObject): CompletionCall {
  const sampling = readSampling(body);
  const { texts, tokens } = readTextOrTokens(body, "prompt");
  const params = create(CompletionParamsSchema, {
    prompt: texts,
    promptTokens: tokens,
    logprobs: body.int32("logprobs"),
    echo: body.boolean("echo"),
    bestOf: body.int32("best_of"),
    suffix: body.string("suffix"),
    ...sampling,
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
