import type { Socket } from "node:net";
import type { EngineErrorCode } from "../../../src/domain/engine/engine.js";
import { answerBytes, type RawAnswer, sse, streamHead } from "./raw-upstream.js";

const delta = (content: string) => sse({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const finish = sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const usage = sse({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } });
const done = sse("[DONE]");
const events = delta("Hello") + delta(" world") + finish + usage + done;
/** A complete answer: `Hello world`. */
export const wholeStream = streamHead + events;

/** Short timeouts, but long enough that a busy machine does not exceed them without a fault. */
export const limits = { connectMs: 1_000, firstByteMs: 1_000, idleMs: 1_000, totalMs: 3_000 };

const write =
  (...parts: readonly (string | Buffer)[]): RawAnswer =>
  (socket) => {
    for (const part of parts) socket.write(part);
  };
/** Writes the given parts, and ends the connection. */
export const writeAndEnd =
  (...parts: readonly (string | Buffer)[]): RawAnswer =>
  (socket, request) => {
    write(...parts)(socket, request);
    socket.end();
  };
const chunked = (text: string) =>
  `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${text.length.toString(16)}\r\n${text}\r\n`;

/** Calls `step` every so many milliseconds while the connection is open. */
function drip(socket: Socket, ms: number, step: (count: number) => void): void {
  let count = 0;
  const timer = setInterval(() => step(count++), ms);
  socket.on("close", () => clearInterval(timer));
}

/** A way in which a server fails, or answers in an unusual form. */
export interface Fault {
  readonly answer: RawAnswer;
  /** Null: the answer is complete. */
  readonly code: EngineErrorCode | null;
  /** The timeout that ends the call; default: none, the call ends immediately. */
  readonly limitMs?: number;
}

export const faults: Readonly<Record<string, Fault>> = {
  "accepts and never answers": { answer: () => {}, code: "timeout", limitMs: limits.firstByteMs },
  "sends the head and then nothing": { answer: write(streamHead), code: "timeout", limitMs: limits.firstByteMs },
  "falls silent after the first content": {
    answer: write(streamHead, delta("Hello")),
    code: "timeout",
    limitMs: limits.idleMs,
  },
  "resets before the head": { answer: (socket) => socket.resetAndDestroy(), code: "upstream_error" },
  "resets within the stream": {
    answer: (socket) => socket.write(streamHead + delta("Hello"), () => socket.resetAndDestroy()),
    code: "upstream_error",
  },
  "ends before the head": { answer: (socket) => void socket.end(), code: "upstream_error" },
  "ends within the head": { answer: writeAndEnd("HTTP/1.1 200 OK\r\ncont"), code: "upstream_error" },
  "ends within an event": { answer: writeAndEnd(`${streamHead}${delta("Hello")}data: {"cho`), code: "upstream_error" },
  "ends within a chunk": {
    answer: writeAndEnd(chunked(delta("Hello")), "ff\r\ndata: {"),
    code: "upstream_error",
  },
  "ends without a finish": { answer: writeAndEnd(streamHead, delta("Hello"), done), code: "upstream_error" },
  "states a Content-Length above the body": {
    answer: writeAndEnd(streamHead.replace("connection: close", "content-length: 9999"), delta("Hello")),
    code: "upstream_error",
  },
  "states a Content-Length below the body": {
    answer: writeAndEnd(streamHead.replace("connection: close", "content-length: 40"), events),
    code: "upstream_error",
  },
  "states two Content-Lengths": {
    answer: writeAndEnd(streamHead.replace("connection: close", "content-length: 5\r\ncontent-length: 6"), events),
    code: "upstream_error",
  },
  "sends garbage": { answer: writeAndEnd(Buffer.from("\u0000\u0001garbage\r\n\r\n")), code: "upstream_error" },
  "sends garbage as an event": { answer: writeAndEnd(streamHead, "data: garbage\n\n", events), code: "upstream_error" },
  "answers an HTML page with 200": {
    answer: writeAndEnd(answerBytes("200 OK", "text/html", "<html><title>Login</title></html>")),
    code: "upstream_error",
  },
  "answers an error with 200": {
    answer: writeAndEnd(answerBytes("200 OK", "application/json", '{"error":{"message":"boom","code":500}}')),
    code: "upstream_error",
  },
  "answers JSON that is no answer with 200": {
    answer: writeAndEnd(answerBytes("200 OK", "application/json", "{}")),
    code: "upstream_error",
  },
  "answers an event stream without a content type": {
    answer: writeAndEnd(wholeStream.replace("content-type: text/event-stream\r\n", "")),
    code: "upstream_error",
  },
  "answers compressed": {
    answer: writeAndEnd(wholeStream.replace("connection", "content-encoding: gzip\r\nconnection")),
    code: "upstream_error",
  },
  "floods with 1xx answers": {
    answer: (socket) => drip(socket, 1, () => socket.write("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(9))),
    code: "upstream_error",
  },
  "sends a head of more than 16 KiB": {
    answer: write(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(20_000)}\r\n\r\n`),
    code: "upstream_error",
  },
  "sends an event of more than 10 MB": {
    answer: write(streamHead, Buffer.from("data: "), Buffer.alloc(11 * 1_024 * 1_024, "x")),
    code: "upstream_error",
  },
  "sends an error within the stream": {
    answer: writeAndEnd(streamHead, delta("Hello"), sse({ error: { message: "boom", type: "server_error" } }), done),
    code: "upstream_error",
  },
  "sends a byte at a time without an end": {
    answer: (socket) => {
      socket.write(streamHead);
      drip(socket, 100, () => socket.write(":"));
    },
    code: "timeout",
    limitMs: limits.totalMs,
  },
  "switches protocols": {
    answer: write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    code: "upstream_error",
  },
  redirects: {
    answer: writeAndEnd(
      "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    ),
    code: "upstream_error",
  },
  "answers 401": {
    answer: writeAndEnd(answerBytes("401 Unauthorized", "application/json", '{"error":"Unauthorized"}')),
    code: "unauthorized",
  },
  "answers 429": {
    answer: writeAndEnd(answerBytes("429 Too Many Requests", "text/plain", "slow down", ["retry-after: 7"])),
    code: "rate_limited",
  },
  "answers 400": {
    answer: writeAndEnd(answerBytes("400 Bad Request", "application/json", '{"detail":"bad"}')),
    code: "bad_input",
  },
  "answers 500": {
    answer: writeAndEnd(answerBytes("500 Internal Server Error", "text/plain", "Internal Server Error")),
    code: "upstream_error",
  },
  "answers 502": { answer: writeAndEnd(answerBytes("502 Bad Gateway", "text/html", "<html>")), code: "upstream_error" },
  "answers 503": {
    answer: writeAndEnd(answerBytes("503 Service Unavailable", "text/plain", "Request dropped")),
    code: "overloaded",
  },
  "answers 503 while it loads": {
    answer: writeAndEnd(
      answerBytes("503 Service Unavailable", "application/json", '{"error":{"message":"Loading model"}}'),
    ),
    code: "model_loading",
  },
  "answers 504": { answer: writeAndEnd(answerBytes("504 Gateway Timeout", "text/html", "<html>")), code: "timeout" },
  "answers 500 with a body without an end": {
    answer: (socket) => {
      socket.write("HTTP/1.1 500 Internal Server Error\r\n\r\n");
      drip(socket, 1, () => socket.write("x".repeat(4_096)));
    },
    code: "upstream_error",
  },
  // These answers are complete for the caller.
  "sends every byte on its own": {
    answer: (socket) => {
      for (const byte of Buffer.from(wholeStream)) socket.write(Buffer.from([byte]));
      socket.end();
    },
    code: null,
  },
  "ends lines with CRLF, CR and LF": {
    answer: writeAndEnd(
      streamHead,
      delta("Hello").replaceAll("\n", "\r\n"),
      delta(" world").replaceAll("\n", "\r"),
      finish.replace("\n\n", "\n\r\n"),
      done,
    ),
    code: null,
  },
  "leaves out [DONE]": { answer: writeAndEnd(streamHead, events.replace(done, "")), code: null },
  "leaves out [DONE] and keeps the connection open": {
    answer: write(streamHead, events.replace(done, "")),
    code: null,
    limitMs: limits.idleMs,
  },
  "sends [DONE] twice, and more": { answer: writeAndEnd(streamHead, events, done, delta("late")), code: null },
  "resets after the last finish": {
    answer: (socket) =>
      socket.write(streamHead + delta("Hello") + delta(" world") + finish, () => socket.resetAndDestroy()),
    code: null,
  },
  "names another model": {
    answer: writeAndEnd(streamHead, events.replaceAll('{"choices"', '{"model":"other","id":"x","choices"')),
    code: null,
  },
  "answers as a whole although a stream was asked for": {
    answer: writeAndEnd(
      answerBytes(
        "200 OK",
        "application/json",
        '{"choices":[{"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}]}',
      ),
    ),
    code: null,
  },
};
