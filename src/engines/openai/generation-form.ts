import type { GenEvent, GenerateRequest } from "../../domain/engine/engine.js";
import type { MessagesFacts } from "../../domain/engine/upstream.js";
import { AnswerEvents, type AnswerOptions } from "./answer/answer-events.js";
import { MessagesAnswer } from "./anthropic/messages-answer.js";
import { messagesBody } from "./anthropic/messages-body.js";
import { messagesErrors } from "./anthropic/messages-errors.js";
import type { UpstreamOperation } from "./connection/upstream.js";
import type { AnswerParser } from "./generate-call.js";
import { NativeAnswer } from "./native/native-answer.js";
import { nativeEvents } from "./native/native-events.js";
import type { KindProfile } from "./protocol/kinds.js";
import { type BodySettings, generateBody, JsonObject } from "./protocol/request-body.js";
import type { ErrorForms } from "./protocol/upstream-failure.js";

/** The request of one generation and the reader of its answer. */
export interface GenerationForm {
  readonly operation: UpstreamOperation;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Request field that contains the prompt, for errors about its length. */
  readonly promptParam: string;
  /** How errors are read; absent: they have OpenAI's forms. */
  readonly errors?: ErrorForms;
  parser(options: AnswerOptions, emit: (event: GenEvent) => void): AnswerParser;
}

const noHeaders = {};

/** Converts a request. Throws EngineError for features that the API of the server does not have. */
export function generationForm(
  request: GenerateRequest,
  api: KindProfile["api"],
  settings: BodySettings,
  facts: MessagesFacts | null,
): GenerationForm {
  const { native, input } = request;
  if (native !== undefined) return nativeForm(native, settings.model);
  if (api === "messages") {
    return {
      operation: "messages",
      body: messagesBody(request, { ...settings, facts }),
      headers: noHeaders,
      promptParam: "messages",
      errors: messagesErrors,
      parser: (options, emit) => new MessagesAnswer(options, emit),
    };
  }
  const isChat = "messages" in input;
  return {
    operation: isChat ? "chat/completions" : "completions",
    body: generateBody(request, settings),
    headers: noHeaders,
    promptParam: isChat ? "messages" : "prompt",
    parser: (options, emit) => new AnswerEvents(options, emit),
  };
}

/** The client's request unchanged, except that it has the server's name of the model and always streams. */
function nativeForm(native: NonNullable<GenerateRequest["native"]>, model: string): GenerationForm {
  const { api, headers } = native;
  const body = new JsonObject().text("model", model).add("stream", "true");
  for (const [name, json] of Object.entries(native.fieldsJson())) body.add(JSON.stringify(name).slice(1, -1), json);
  const isMessages = api === "messages";
  return {
    operation: api,
    body: body.toString(),
    headers,
    promptParam: isMessages ? "messages" : "input",
    ...(isMessages ? { errors: messagesErrors } : {}),
    parser: ({ joins, fingerprint, estimatedPromptTokens }, emit) =>
      new NativeAnswer(
        { events: nativeEvents(api), model: native.model, joins, fingerprint, estimatedPromptTokens },
        emit,
      ),
  };
}
