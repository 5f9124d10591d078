import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { answerBytes, RawUpstream, sse, streamHead } from "./raw-upstream.js";

export interface UpstreamScript {
  /** Text of the answers; each word with the space before it is a token. */
  readonly text: string;
  readonly tokens: number;
  /** Delay between tokens; 0: none. */
  readonly tokenDelayMs: number;
  readonly contextLength: number;
  readonly embeddingDims: number;
}

/** A server of the kind vllm with canned answers. */
export async function startScriptedUpstream(script: UpstreamScript): Promise<RawUpstream> {
  return await RawUpstream.start((socket, { path, body }) => {
    const request: unknown = body === "" ? {} : JSON.parse(body);
    if (path === "/v1/models") socket.write(json(models(script)));
    else if (body === "") socket.write(json({}, "404 Not Found"));
    else if (path === "/v1/embeddings") answerEmbeddings(socket, script, request as EmbedBody);
    else if (path === "/v1/rerank") answerRerank(socket, script, request as RerankBody);
    else answerChat(socket, script, request as ChatBody);
  });
}

interface ChatBody {
  readonly messages: readonly { readonly content: string }[];
  readonly max_tokens?: number;
  readonly stop?: readonly string[];
  readonly n?: number;
}

interface RerankBody {
  readonly query: string;
  readonly documents: readonly string[];
}

interface EmbedBody {
  readonly input: readonly string[];
}

const json = (value: object, status = "200 OK"): string =>
  answerBytes(status, "application/json", JSON.stringify(value));
const count = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

function models({ contextLength, embeddingDims }: UpstreamScript): object {
  const own = { object: "model", owned_by: "vllm", max_model_len: contextLength };
  return {
    object: "list",
    data: [
      { id: "chat", ...own },
      { id: "embedder", ...own, meta: { n_embd: embeddingDims } },
      { id: "reranker", ...own },
    ],
  };
}

function answerChat(
  socket: Socket,
  script: UpstreamScript,
  { messages, max_tokens, stop = [], n = 1 }: ChatBody,
): void {
  const promptTokens = messages.reduce((sum, { content }) => sum + count(content), 0);
  if (promptTokens > script.contextLength) {
    socket.write(json(tooLong(script.contextLength, promptTokens, "input_tokens"), "400 Bad Request"));
    return;
  }
  const words = script.text.split(/(?= )/);
  let text = "";
  const tokens: string[] = [];
  let reason = script.tokens > (max_tokens ?? script.tokens) ? "length" : "stop";
  for (let i = 0; i < Math.min(script.tokens, max_tokens ?? script.tokens); i++) {
    const token = words[i % words.length] ?? "";
    const cut = firstOf(text + token, stop);
    tokens.push(cut === null ? token : cut.slice(text.length));
    text += token;
    if (cut === null) continue;
    // A stop string may begin in earlier tokens.
    tokens.splice(0, tokens.length, ...cut.split(/(?= )/));
    reason = "stop";
    break;
  }
  void stream(socket, script.tokenDelayMs, chunks(tokens, n, reason, promptTokens));
}

function firstOf(text: string, stops: readonly string[]): string | null {
  const ends = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return ends.length === 0 ? null : text.slice(0, Math.min(...ends));
}

function chunks(tokens: readonly string[], n: number, reason: string, promptTokens: number): string[] {
  const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_795_351_228, model: "chat" };
  const choices = Array.from({ length: n }, (_, index) => index);
  const chunk = (index: number, delta: object, finish: string | null) =>
    sse({ ...base, choices: [{ index, delta, logprobs: null, finish_reason: finish, token_ids: null }] });
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: tokens.length * n,
    total_tokens: promptTokens + tokens.length * n,
  };
  return [
    ...choices.map((index) => chunk(index, { role: "assistant", content: "" }, null)),
    ...tokens.flatMap((content) => choices.map((index) => chunk(index, { content }, null))),
    ...choices.map((index) => chunk(index, {}, reason)),
    sse({ ...base, choices: [], usage }),
    sse("[DONE]"),
  ];
}

async function stream(socket: Socket, delayMs: number, parts: readonly string[]): Promise<void> {
  if (delayMs === 0) {
    socket.end(streamHead + parts.join(""));
    return;
  }
  socket.write(streamHead);
  for (const part of parts) {
    if (socket.destroyed) return;
    socket.write(part);
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  }
  socket.end();
}

function tooLong(contextLength: number, tokens: number, param: string): object {
  const message =
    `This model's maximum context length is ${contextLength} tokens. However, your prompt contains at least ${tokens} ` +
    `input tokens. (parameter=${param}, value=${tokens})`;
  return { error: { message, type: "BadRequestError", param, code: 400 } };
}

function answerEmbeddings(
  socket: Socket,
  { embeddingDims, contextLength }: UpstreamScript,
  { input }: EmbedBody,
): void {
  const longest = Math.max(...input.map(count));
  if (longest > contextLength) {
    socket.write(json(tooLong(contextLength, longest, "input_tokens"), "400 Bad Request"));
    return;
  }
  const data = input.map((text, index) => {
    const numbers = Float32Array.from({ length: embeddingDims }, (_, i) => {
      return createHash("sha256").update(`${i} ${text}`).digest().readInt32LE(0) / 2 ** 31;
    });
    const length = Math.hypot(...numbers);
    const unit = numbers.map((number) => number / length);
    return { index, embedding: Buffer.from(unit.buffer).toString("base64") };
  });
  socket.write(json({ data, usage: { prompt_tokens: input.reduce((sum, text) => sum + count(text), 0) } }));
}

/** Scores by the number of shared words, best first. */
function answerRerank(socket: Socket, { contextLength }: UpstreamScript, { query, documents }: RerankBody): void {
  const longest = Math.max(...documents.map(count));
  if (longest > contextLength) {
    socket.write(json(tooLong(contextLength, longest, "input_tokens"), "400 Bad Request"));
    return;
  }
  const words = new Set(query.split(" "));
  const results = documents
    .map((text, index) => ({ index, relevance_score: text.split(" ").filter((word) => words.has(word)).length }))
    .sort((a, b) => b.relevance_score - a.relevance_score);
  socket.write(json({ results, usage: { total_tokens: documents.length * count(query) } }));
}
