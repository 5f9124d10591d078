import { httpRequest } from "./http-request.js";

/** A request that is sent repeatedly. The model's name selects the mock upstream's answer: see native/upstream-answers.h. */
export interface Work {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>> & { readonly model: string };
  readonly connections: number;
  /** Content chunks of a streamed answer, each with a stamp; 0 for an answer as one JSON text. */
  readonly chunks: number;
}

/** Words of a whole answer; each is one token. */
export const answerWords = 200;
/** Dimensions of an embedding. */
export const dimensions = 1_536;

/** Messages for a request of about 720 bytes with its headers: a short turn of a conversation. */
const messages = [
  { role: "system", content: "You are a helpful assistant. Answer in short sentences and name your sources." },
  {
    role: "user",
    content: "Explain how a queue in front of a model keeps one busy customer from slowing down all others. ".repeat(4),
  },
];

function chat(model: string, connections: number): Work {
  const body = { model, temperature: 0.7, messages };
  return { path: "/v1/chat/completions", body, connections, chunks: 0 };
}

function stream(chunks: number, perWrite: number, pauseMs: number, connections: number): Work {
  const model = `stamps-${chunks}-${perWrite}-${pauseMs}`;
  const body = { model, temperature: 0.7, messages, stream: true, stream_options: { include_usage: true } };
  return { path: "/v1/chat/completions", body, connections, chunks };
}

function embedding(encoding: "base64" | "float"): Work {
  const body = { model: "vector", input: "How long may a customer wait?", encoding_format: encoding };
  return { path: "/v1/embeddings", body, connections: 16, chunks: 0 };
}

/** The requests whose throughput is measured, in turns. */
export const works = {
  unary: chat("text-1", 32),
  /** The upstream streams its answer in one chunk per word to a gateway that requests a stream. */
  unary_from_200_chunks: chat(`text-${answerWords}`, 32),
  streams_at_once: stream(50, 10, 0, 8),
  embeddings_base64: embedding("base64"),
  embeddings_float: embedding("float"),
} as const satisfies Record<string, Work>;
export type WorkName = keyof typeof works;

/** The request whose latency is measured, one at a time. */
export const singleRequest = chat("text-1", 1);

const pacedChunks = 40;
const pacedPauseMs = 100;
/** Streams at the pace of a model, whose memory is measured. */
export const pacedStreams = stream(pacedChunks, 1, pacedPauseMs, 1_000);
/** Chunks per second of all streams. A stream's first chunk has no delay, and the next stream starts without delay. */
export const pacedChunksPerSecond =
  (pacedStreams.connections * pacedChunks * 1_000) / ((pacedChunks - 1) * pacedPauseMs);

export const workModels: readonly string[] = [
  ...new Set([...Object.values(works), singleRequest, pacedStreams].map(({ body }) => body.model)),
];

/** A program that receives the requests. */
export interface Target {
  readonly port: number;
  readonly key: string;
  /** Further headers of every request, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>;
}

export function requestOf({ path, body }: Work, { key, headers }: Target): Buffer {
  return httpRequest(path, key, body, headers);
}

/** Sends a request once and checks the content of its answer; the load client checks only status, chunks and end. */
export async function checkAnswer(
  name: string,
  { path, body, chunks }: Work,
  { port, key, headers }: Target,
): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const fault = response.status === 200 ? faultOf(text, chunks) : `status ${response.status}`;
  if (fault !== null)
    throw new Error(`${name} gives a wrong answer for ${body.model}: ${fault}: ${text.slice(0, 500)}`);
}

interface WholeAnswer {
  readonly choices?: readonly { readonly message: { readonly content: string } }[];
  readonly data?: readonly { readonly embedding: string | readonly number[] }[];
}

function faultOf(text: string, chunks: number): string | null {
  if (chunks > 0) {
    const stamps = text.match(/t=[0-9a-f]{16}/g)?.length ?? 0;
    return stamps === chunks ? null : `${stamps} chunks instead of ${chunks}`;
  }
  const { choices, data } = JSON.parse(text) as WholeAnswer;
  if (data !== undefined) {
    const vector = data[0]?.embedding ?? [];
    const length = typeof vector === "string" ? Buffer.from(vector, "base64").length / 4 : vector.length;
    return length === dimensions ? null : `${length} numbers instead of ${dimensions}`;
  }
  const words = choices?.[0]?.message.content.trim().split(" ").length ?? 0;
  return words === answerWords ? null : `${words} words instead of ${answerWords}`;
}
