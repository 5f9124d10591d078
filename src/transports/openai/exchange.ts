import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { Clock } from "../../domain/call/ports.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import { type LimitNews, limitHeaders } from "../../domain/metering/limit-response.js";
import { JsonText } from "../../lib/json-text.js";
import { answerAndLinger } from "../../lib/lingering-answer.js";
import { pathOf } from "../../lib/request-path.js";
import { endWhole } from "../../lib/whole-answer.js";
import { errorResponse } from "./error-response.js";

/** Version of OpenAI's API whose shapes are spoken here (HDR-3). */
const openAiVersion = "2020-10-01";

/** One HTTP request and its answer. Every answer of this door goes through here, so all carry the same headers. */
export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Path without the query, as it came. */
  readonly path: string;
  /** Of the request everywhere: header, log, usage. */
  readonly requestId: string;
  readonly #startedAtMs: number;
  readonly #clock: Clock;
  /** Names and values in turn. */
  #limits: readonly string[] = [];

  constructor(req: IncomingMessage, res: ServerResponse, requestId: string, clock: Clock) {
    this.req = req;
    this.res = res;
    this.path = pathOf(req);
    this.requestId = requestId;
    this.#clock = clock;
    this.#startedAtMs = clock.monotonic();
  }

  /** To be called before the answer to an admitted request: its headers say how the caller's limits stand (wire RL-1). */
  tellLimits(news: LimitNews): void {
    if (news.limits !== undefined || news.degraded) this.#limits = Object.entries(limitHeaders(news)).flat();
  }

  /**
   * Adds the headers of every answer (HDR-1 to HDR-3) to `own` and returns it; names and values in turn. Security headers
   * are the listener's: they are on all doors' answers.
   */
  headers(own: string[]): string[] {
    const processingMs = Math.max(0, Math.round(this.#clock.monotonic() - this.#startedAtMs));
    own.push(
      headers.requestId,
      this.requestId,
      headers.processingMs,
      `${processingMs}`,
      headers.version,
      openAiVersion,
    );
    if (this.#limits.length > 0) own.push(...this.#limits);
    return own;
  }

  /** Answers with a whole JSON body; text and bytes are JSON already. */
  json(status: number, body: object | string | Uint8Array | JsonText): void {
    if (body instanceof JsonText) this.#whole(status, body.text, body.isAscii ? body.text.length : null);
    else
      this.#whole(status, typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body), null);
  }

  /** `asciiLength` null: nobody knows how many bytes it has. Text and not bytes goes out in one write with its head. */
  #whole(status: number, content: string | Uint8Array, asciiLength: number | null): void {
    if (this.res.headersSent || this.res.destroyed) return;
    const bytes = asciiLength ?? Buffer.byteLength(content);
    this.res.writeHead(status, this.jsonHeaders("content-length", `${bytes}`));
    // One byte per character is ASCII, and as Latin-1 it is copied instead of encoded.
    endWhole(this.res, this.req.method === "HEAD" ? "" : content, bytes === content.length ? "latin1" : "utf8");
  }

  /** Answers with an error, also when the request's body is still coming in. Nothing when an answer has begun. */
  error(error: ServiceError): void {
    const { status, headers: extra, body } = errorResponse(error);
    answerAndLinger(this.req, this.res, status, this.jsonHeaders(...Object.entries(extra).flat()), body);
  }

  jsonHeaders(...own: string[]): string[] {
    return this.headers(["content-type", "application/json", ...own]);
  }
}
