import { type ClientRequest, request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import type { AttemptError, SendResult, WebhookRequest } from "../domain/webhooks/delivery.js";
import { printable, printableLine } from "../lib/display-text.js";
import type { ReceiverAgents } from "./receiver-agents.js";
import { BlockedAddress, type CheckedLookup } from "./resolver.js";
import type { Target } from "./target.js";

export interface AttemptParts {
  readonly agents: ReceiverAgents;
  readonly lookup: CheckedLookup;
}

/** Status line and headers of an answer. */
const headBytesMax = 16 * 1_024;
/** Of an answer's body. */
const bodyBytesMax = 16 * 1_024;
/** Maximum number of 1xx answers before the final one. */
const informationalMax = 100;
const retryAfterCharactersMax = 64;

interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly latencyMs: number;
}

/**
 * One POST. A single timeout covers everything from the look-up of the name to the last header of the answer, which
 * decides the outcome; the rest of it is for the start of the body. A socket whose answer was read to its end is reused.
 */
export class Attempt {
  readonly #target: Target;
  readonly #request: WebhookRequest;
  readonly #parts: AttemptParts;
  readonly #done: (result: SendResult) => void;
  readonly #startedAtMs = performance.now();
  readonly #excerpt = new AnswerExcerpt();
  readonly #timer: NodeJS.Timeout;
  #client: ClientRequest;
  #phase: AttemptPhase = "lookup";
  /** Of the socket, before this attempt. */
  #bytesReadBefore = 0;
  #informational = 0;
  #ip: string | null = null;
  #answer: Answer | null = null;
  #isOver = false;

  /** Starts immediately. `done` is called once, after the constructor has returned. */
  constructor(target: Target, request: WebhookRequest, parts: AttemptParts, done: (result: SendResult) => void) {
    this.#target = target;
    this.#request = request;
    this.#parts = parts;
    this.#done = done;
    this.#timer = setTimeout(() => this.#endOfBudget(), request.budgetMs);
    this.#client = this.#send(false);
  }

  /** Ends it as `reset`, or with the answer whose body was being read. */
  stop(): void {
    this.#finish(this.#answer === null ? "reset" : null);
  }

  #send(isFresh: boolean): ClientRequest {
    const { isSecure, isAddress } = this.#target;
    this.#phase = isAddress ? "connect" : "lookup";
    this.#ip = null;
    const client = (isSecure ? httpsRequest : httpRequest)(this.#options(isFresh));
    client.on("socket", (socket) => this.#watch(client, socket));
    client.on("information", () => this.#countInformational());
    client.on("upgrade", (_, socket) => {
      socket.destroy();
      this.#finish("bad_response");
    });
    client.on("response", (answer) => this.#read(answer));
    client.on("error", (error) => this.#onError(client, error));
    client.end(this.#request.body);
    return client;
  }

  #options(isFresh: boolean): RequestOptions {
    const { isSecure, host, port, path, authority } = this.#target;
    return {
      host,
      port,
      path,
      method: "POST",
      headers: {
        ...this.#request.headers,
        host: authority,
        "content-length": Buffer.byteLength(this.#request.body),
      },
      agent: this.#parts.agents.of(isSecure, isFresh),
      lookup: this.#parts.lookup.forSocket(this.#request.account, () => {
        if (this.#phase === "lookup") this.#phase = "connect";
      }),
      maxHeaderSize: headBytesMax,
    };
  }

  #watch(client: ClientRequest, socket: Socket): void {
    this.#bytesReadBefore = socket.bytesRead;
    if (client.reusedSocket) {
      this.#connected(socket, "answer");
      return;
    }
    socket.once("connect", () => this.#connected(socket, this.#target.isSecure ? "handshake" : "answer"));
    socket.once("secureConnect", () => {
      this.#phase = "answer";
    });
  }

  #connected(socket: Socket, phase: AttemptPhase): void {
    this.#phase = phase;
    this.#ip = socket.remoteAddress ?? null;
  }

  #countInformational(): void {
    this.#informational += 1;
    if (this.#informational > informationalMax) this.#finish("bad_response");
  }

  #read(answer: IncomingMessage): void {
    const { statusCode: status = 0, headers } = answer;
    if (status < 200) this.#finish("bad_response");
    if (this.#isOver) return;
    const retryAfter = headers["retry-after"];
    this.#answer = {
      status,
      retryAfter: retryAfter === undefined ? null : printableLine(retryAfter).slice(0, retryAfterCharactersMax),
      latencyMs: this.#elapsedMs(),
    };
    answer.on("data", (chunk: Buffer) => {
      this.#excerpt.add(chunk);
      if (this.#excerpt.bytes > bodyBytesMax) this.#finish(null);
    });
    answer.on("end", () => this.#finish(null, true));
    // The status decides, whatever happens to the body.
    answer.on("error", () => this.#finish(null));
    answer.on("close", () => this.#finish(null));
  }

  #onError(client: ClientRequest, error: Error): void {
    if (client !== this.#client || this.#isOver) return;
    if (this.#answer !== null) this.#finish(null);
    else if (this.#hasMetClosedSocket(client)) this.#client = this.#send(true);
    else this.#finish(attemptErrorOf(error, this.#phase));
  }

  /** The server closed an idle socket before it saw the request (WH-24). A fresh socket is used once, so at most one retry. */
  #hasMetClosedSocket(client: ClientRequest): boolean {
    return client.reusedSocket && client.socket?.bytesRead === this.#bytesReadBefore;
  }

  #endOfBudget(): void {
    if (this.#answer !== null) this.#finish(null);
    else this.#finish(this.#phase === "lookup" ? "dns" : "timeout");
  }

  /** `isRead`: the answer has ended, so that the socket can be used again. */
  #finish(error: AttemptError | null, isRead = false): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    if (!isRead) this.#client.destroy();
    this.#done({
      latencyMs: this.#answer?.latencyMs ?? this.#elapsedMs(),
      status: this.#answer?.status ?? null,
      error,
      ip: error === "blocked_address" ? null : this.#ip,
      response: this.#answer === null ? null : this.#excerpt.text(),
      retryAfter: this.#answer?.retryAfter ?? null,
    });
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAtMs);
  }
}

const shownBytesMax = 2_048;

/** The beginning of an answer's body. */
export class AnswerExcerpt {
  readonly #chunks: Buffer[] = [];
  #keptBytes = 0;
  #bytes = 0;

  /** Bytes of the body so far, kept or not. */
  get bytes(): number {
    return this.#bytes;
  }

  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const missing = shownBytesMax - this.#keptBytes;
    if (missing <= 0) return;
    // A copy: a part of what was read would hold on to all of it.
    const kept = chunk.length > missing ? Buffer.from(chunk.subarray(0, missing)) : chunk;
    this.#chunks.push(kept);
    this.#keptBytes += kept.length;
  }

  /** The first 2 KiB as UTF-8 text that no terminal obeys, of 2 KiB at most, too. A character that was cut is left out. */
  text(): string {
    if (this.#bytes === 0) return "";
    const text = printable(new TextDecoder().decode(Buffer.concat(this.#chunks), { stream: true }));
    // What is no UTF-8 has become longer.
    const { read } = new TextEncoder().encodeInto(text, new Uint8Array(shownBytesMax));
    return text.slice(0, read);
  }
}

/** How far an attempt has come. */
export type AttemptPhase = "lookup" | "connect" | "handshake" | "answer";

/** The other side ended a connection that was there. */
const resets = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** So did something on the way. */
const losses = new Set(["ETIMEDOUT", "ENETRESET", "EHOSTUNREACH", "ENETUNREACH"]);

/** What is noted of an error that Node reports in a phase. */
export function attemptErrorOf(error: Error, phase: AttemptPhase): AttemptError {
  const code = String((error as NodeJS.ErrnoException).code ?? "");
  switch (phase) {
    case "lookup":
      return error instanceof BlockedAddress ? "blocked_address" : "dns";
    case "connect":
      // A reset right after the connection was made can be seen before it.
      return resets.has(code) ? "reset" : "connect";
    case "handshake":
      return resets.has(code) || losses.has(code) ? "reset" : "tls";
    case "answer":
      if (code.startsWith("HPE_")) return "bad_response";
      return code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_") || code === "EPROTO" ? "tls" : "reset";
  }
}
