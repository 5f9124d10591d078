import type { ModelService } from "./model-service.js";

export interface ChatChoice {
  readonly index: number;
  readonly finish_reason: string;
  readonly message: {
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
  };
}

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
}

export interface ChatAnswer {
  readonly choices: readonly ChatChoice[];
  readonly usage: ChatUsage;
}

export interface CompletionAnswer {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
  readonly usage: ChatUsage;
}

export interface StreamedAnswer {
  readonly text: string;
  readonly toolName: string;
  readonly toolArguments: string;
  readonly finishReason: string | null;
  readonly usage: ChatUsage | null;
  /** Data of the last event. */
  readonly last: string;
}

/** One turn of a user. */
export function user(content: string): { readonly role: "user"; readonly content: string } {
  return { role: "user", content };
}

/** Posts a request for the service's model. The caller reads the body. */
export function post(service: ModelService, path: string, fields: object, signal?: AbortSignal): Promise<Response> {
  return fetch(service.api + path, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: service.model, ...fields }),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** An unstreamed chat answer, with temperature 0 unless the fields override it. Rejects when the status is not 200. */
export async function chat(service: ModelService, fields: object): Promise<ChatAnswer> {
  return (await answerOf(await post(service, "/chat/completions", { temperature: 0, ...fields }))) as ChatAnswer;
}

/** An unstreamed completion, with temperature 0 unless the fields override it. Rejects when the status is not 200. */
export async function complete(service: ModelService, fields: object): Promise<CompletionAnswer> {
  return (await answerOf(await post(service, "/completions", { temperature: 0, ...fields }))) as CompletionAnswer;
}

/** A chat answer assembled from its stream, with temperature 0 unless the fields override it. */
export async function streamChat(service: ModelService, fields: object): Promise<StreamedAnswer> {
  const options = { stream: true, stream_options: { include_usage: true }, temperature: 0 };
  const response = await post(service, "/chat/completions", { ...options, ...fields });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${body}`);
  const events = body.split("\n\n").flatMap((event) => (event.startsWith("data: ") ? [event.slice(6)] : []));
  const chunks = events.filter((data) => data !== "[DONE]").map((data) => JSON.parse(data) as Chunk);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const calls = choices.flatMap(({ delta }) => delta.tool_calls ?? []);
  return {
    text: choices.map(({ delta }) => delta.content ?? "").join(""),
    toolName: calls.map((call) => call.function.name ?? "").join(""),
    toolArguments: calls.map((call) => call.function.arguments ?? "").join(""),
    finishReason: choices.find(({ finish_reason }) => finish_reason !== null)?.finish_reason ?? null,
    usage: chunks.at(-1)?.usage ?? null,
    last: events.at(-1) ?? "",
  };
}

interface Chunk {
  readonly choices: readonly {
    readonly delta: {
      readonly content?: string | null;
      readonly tool_calls?: readonly { readonly function: { readonly name?: string; readonly arguments?: string } }[];
    };
    readonly finish_reason: string | null;
  }[];
  readonly usage?: ChatUsage | null;
}

async function answerOf(response: Response): Promise<unknown> {
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${body}`);
  return JSON.parse(body);
}
