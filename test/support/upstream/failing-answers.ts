import type { Socket } from "node:net";
import { answerBytes, sse, streamHead } from "./raw-upstream.js";

/** An upstream that fails before any content. */
export interface FailingAnswer {
  readonly name: string;
  readonly fail: (socket: Socket) => void;
  /** Bytes that are written as soon as the request has arrived; default: nothing. */
  readonly before?: string;
}

const text = (status: string, body: string, headers: readonly string[] = []) =>
  answerBytes(status, "text/plain", body, headers);
const role = sse({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });

/** Answers of failing servers, and of proxies in front of them. None contains content. */
export const failingAnswers: readonly FailingAnswer[] = [
  { name: "500", fail: (socket) => void socket.end(text("500 Internal Server Error", "Internal Server Error")) },
  {
    name: "503 in plain text",
    fail: (socket) => void socket.end(text("503 Service Unavailable", "Request dropped due to backpressure.")),
  },
  { name: "429", fail: (socket) => void socket.end(text("429 Too Many Requests", "slow down", ["retry-after: 7"])) },
  { name: "401", fail: (socket) => void socket.end(text("401 Unauthorized", '{"error":"Unauthorized"}')) },
  { name: "403", fail: (socket) => void socket.end(text("403 Forbidden", "no access to the model")) },
  { name: "404 of the model", fail: (socket) => void socket.end(text("404 Not Found", '{"detail":"no such model"}')) },
  { name: "504", fail: (socket) => void socket.end(text("504 Gateway Timeout", "<html>")) },
  { name: "a reset", fail: (socket) => void socket.resetAndDestroy() },
  { name: "a reset after the head", before: streamHead, fail: (socket) => void socket.resetAndDestroy() },
  { name: "a reset after the role", before: streamHead + role, fail: (socket) => void socket.resetAndDestroy() },
  { name: "an end after the role", before: streamHead + role, fail: (socket) => void socket.end() },
  {
    name: "an error event after the role",
    before: streamHead + role,
    fail: (socket) => void socket.end(sse({ error: { message: "out of memory", type: "server_error" } })),
  },
];
