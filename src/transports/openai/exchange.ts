import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { ServiceError } from "../../domain/service-error.js";
import { answerAndLinger } from "../../lib/lingering-answer.js";
import { pathOf } from "../../lib/request-path.js";
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
  readonly #monotonic: () => number;

  constructor(req: IncomingMessage, res: ServerResponse, requestId: string, monotonic: () => number) {
    this.req = req;
    this.res = res;
    this.path = pathOf(req);
    this.requestId = requestId;
    this.#monotonic = monotonic;
    this.#startedAtMs = monotonic();
  }

  /** Headers of every answer (HDR-1 to HDR-3). Security headers are the listener's: they are on all doors' answers. */
  headers(): OutgoingHttpHeaders {
    return {
      [headers.requestId]: this.requestId,
      [headers.processingMs]: Math.max(0, Math.round(this.#monotonic() - this.#startedAtMs)),
      [headers.version]: openAiVersion,
    };
  }

  /** Answers with a whole JSON body. */
  json(status: number, body: object | Uint8Array): void {
    if (this.res.headersSent || this.res.destroyed) return;
    // Text and not bytes: Node then sends head and body in one write, which is half of the cost of a short answer.
    const content = body instanceof Uint8Array ? body : JSON.stringify(body);
    this.res.writeHead(status, { "content-length": Buffer.byteLength(content), ...this.jsonHeaders() });
    this.res.end(this.req.method === "HEAD" ? "" : content);
  }

  /** Answers with an error, also when the request's body is still coming in. Nothing when an answer has begun. */
  error(error: ServiceError): void {
    const { status, headers: extra, body } = errorResponse(error);
    answerAndLinger(this.req, this.res, status, { ...this.jsonHeaders(), ...extra }, body);
  }

  jsonHeaders(): OutgoingHttpHeaders {
    return { "content-type": "application/json", ...this.headers() };
  }
}
