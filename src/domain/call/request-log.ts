import type { Logger } from "./ports.js";

/** A logger that adds the request id to every line. Made per call, so it costs one object and no child logger. */
export class RequestLog implements Logger {
  readonly #log: Logger;
  readonly #requestId: string;

  constructor(log: Logger, requestId: string) {
    this.#log = log;
    this.#requestId = requestId;
  }

  debug(fields: object, message: string): void {
    this.#log.debug({ request_id: this.#requestId, ...fields }, message);
  }

  info(fields: object, message: string): void {
    this.#log.info({ request_id: this.#requestId, ...fields }, message);
  }

  warn(fields: object, message: string): void {
    this.#log.warn({ request_id: this.#requestId, ...fields }, message);
  }

  error(fields: object, message: string): void {
    this.#log.error({ request_id: this.#requestId, ...fields }, message);
  }
}
