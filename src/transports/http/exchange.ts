import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../domain/call/ports.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import { type LimitNews, limitHeaders } from "../../domain/metering/limit-response.js";
import { JsonText } from "../../lib/json-string.js";
import { answerAndLinger, endWhole, errorHead } from "./answer.js";
import { pathOf } from "./routes.js";

/** What the answers of one API family, such as OpenAI's, have in common. */
export interface ApiFamily {
  /** Adds the headers of every answer to `own`; names and values in turn. */
  addHeaders(own: string[], requestId: string, processingMs: number): void;
  /** The JSON body of an error. */
  errorToJson(error: ServiceError): object;
}

/** One HTTP request and its answer in JSON or SSE. Every answer of an API family goes through here and has its headers. */
export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Path without the query, as it came. */
  readonly path: string;
  /** The request's id everywhere: header, log, usage. */
  readonly requestId: string;
  readonly #family: ApiFamily;
  readonly #startedAtMs: number;
  readonly #clock: Clock;
  /** Names and values in turn. */
  #limits: readonly string[] = [];

  constructor(req: IncomingMessage, res: ServerResponse, requestId: string, family: ApiFamily, clock: Clock) {
    this.req = req;
    this.res = res;
    this.path = pathOf(req);
    this.requestId = requestId;
    this.#family = family;
    this.#clock = clock;
    this.#startedAtMs = clock.monotonic();
  }

  /** Call before the answer to an admitted request: its headers report the caller's rate limits (wire RL-1). */
  tellLimits(news: LimitNews): void {
    if (news.limits !== undefined || news.degraded) this.#limits = Object.entries(limitHeaders(news)).flat();
  }

  /**
   * Adds the headers of every answer (HDR-1 to HDR-3) to `own` and returns it; names and values in turn. Security headers
   * are added by the listener, to the answers of all transports.
   */
  headers(own: string[]): string[] {
    const processingMs = Math.max(0, Math.round(this.#clock.monotonic() - this.#startedAtMs));
    this.#family.addHeaders(own, this.requestId, processingMs);
    if (this.#limits.length > 0) own.push(...this.#limits);
    return own;
  }

  /** Answers with a whole JSON body; text and bytes are JSON already. */
  json(status: number, body: object | string | Uint8Array | JsonText): void {
    if (body instanceof JsonText) this.#whole(status, body.text, body.isAscii ? body.text.length : null);
    else
      this.#whole(status, typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body), null);
  }

  /** `asciiLength` null: the length in bytes is not known. Text, unlike bytes, is sent in one write with its head. */
  #whole(status: number, content: string | Uint8Array, asciiLength: number | null): void {
    if (this.res.headersSent || this.res.destroyed) return;
    const bytes = asciiLength ?? Buffer.byteLength(content);
    this.res.writeHead(status, this.jsonHeaders("content-length", `${bytes}`));
    // One byte per character is ASCII, and as Latin-1 it is copied instead of encoded.
    endWhole(this.res, this.req.method === "HEAD" ? "" : content, bytes === content.length ? "latin1" : "utf8");
  }

  /** Answers with an error, also while the request's body still arrives. Does nothing once an answer has begun. */
  error(error: ServiceError): void {
    const { status, headers } = errorHead(error);
    const body = JSON.stringify(this.errorToJson(error));
    answerAndLinger(this.req, this.res, status, this.jsonHeaders(...Object.entries(headers).flat()), body);
  }

  errorToJson(error: ServiceError): object {
    return this.#family.errorToJson(error);
  }

  jsonHeaders(...own: string[]): string[] {
    return this.headers(["content-type", "application/json", ...own]);
  }
}
