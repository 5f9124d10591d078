import type { MessageInitShape } from "@bufbuild/protobuf";
import { type ChatCompletionParamsSchema, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";

export const {
  createChatCompletion,
  streamChatCompletion,
  createCompletion,
  streamCompletion,
  createEmbeddings,
  rerank,
  countTokens,
} = InferenceService.method;

/** A chat of one user message. */
export function chatOf(
  model: string,
  fields: MessageInitShape<typeof ChatCompletionParamsSchema> = {},
  text = "Say something.",
) {
  const messages = [{ role: Role.USER, content: [{ part: { case: "text" as const, value: text } }] }];
  return { params: { model, messages, ...fields } };
}

/** The chat methods: unary and streaming. */
export const chatMethods = [createChatCompletion, streamChatCompletion] as const;
