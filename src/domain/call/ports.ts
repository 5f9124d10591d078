/** Ports that the whole domain needs. Each has a real and a test implementation. */

/** Time. Nothing in the domain reads the system's clock. */
export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  now(): number;
  /** Milliseconds that never go back, for durations. */
  monotonic(): number;
  /** Calls `run` once after `ms`; the returned function cancels it. Does not keep the process alive. */
  after(ms: number, run: () => void): () => void;
}

/** Random ids from a-z, A-Z, 0-9 with at least 5.9 bits per character. */
export interface IdSource {
  /** `req_` and 32 hex digits (HDR-1). */
  requestId(): string;
  /** `prefix` and `length` characters; default 24. */
  text(prefix: string, length?: number): string;
}

/** Structured log, in pino's argument order. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
