import { EngineError } from "../../../domain/engine/engine.js";
import type { AbortFlag } from "../../../lib/abort-source.js";
import { type AnswerHeaders, InvalidResponse } from "../protocol/upstream-failure.js";
import type { AnswerReader, Exchange } from "./exchange.js";

/** Collects a body up to a bound. */
export class BodyCollector {
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Adds a read; false if the body is longer than the bound. The beginning up to the bound is kept. */
  add(chunk: Buffer): boolean {
    const room = this.#bytesMax - this.#bytes;
    if (room > 0) this.#chunks.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    this.#bytes += chunk.length;
    return this.#bytes <= this.#bytesMax;
  }

  text(): string {
    const [first, second] = this.#chunks;
    // Most answers are one read.
    const body = first !== undefined && second === undefined ? first : Buffer.concat(this.#chunks);
    return body.toString("utf8");
  }
}

/** Maximum bytes that are read of the body of an error. */
export const errorBytesMax = 64 * 1_024;

export interface WholeAnswer {
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly body: string;
}

/** An answer that is read as a whole. `result` rejects with EngineError; `stop` ends it with that error. */
export interface WholeExchange {
  readonly result: Promise<WholeAnswer>;
  stop(error: EngineError): void;
  /** See `Exchange.firstByteMs`. */
  readonly firstByteMs: () => number | null;
}

/**
 * Reads a whole answer. `bytesMax`: maximum body of a success; a longer one is an InvalidResponse. The body of an error is cut.
 */
export function readWhole(
  start: (reader: AnswerReader) => Exchange,
  bytesMax: number,
  signal: AbortFlag,
): WholeExchange {
  let exchange: Exchange | null = null;
  let stop: (error: EngineError) => void = () => {};
  const result = new Promise<WholeAnswer>((resolve, reject) => {
    let status = 0;
    let headers: AnswerHeaders = {};
    let body = new BodyCollector(bytesMax);
    const onAbort = (): void => stop(new EngineError("aborted", "the request was aborted"));
    const settled = (): void => signal.removeEventListener("abort", onAbort);
    stop = (error) => {
      exchange?.cancel();
      settled();
      reject(error);
    };
    const end = (): void => {
      settled();
      resolve({ status, headers, body: body.text() });
    };
    signal.addEventListener("abort", onAbort);
    exchange = start({
      head(given, headersGiven) {
        status = given;
        headers = headersGiven;
        if (status !== 200) body = new BodyCollector(errorBytesMax);
      },
      data(chunk) {
        if (body.add(chunk)) return true;
        if (status === 200) stop(new InvalidResponse(`the upstream's answer has more than ${bytesMax} bytes`));
        else {
          exchange?.cancel();
          end();
        }
        return true;
      },
      end,
      fail: stop,
    });
  });
  return { result, stop: (error) => stop(error), firstByteMs: () => exchange?.firstByteMs ?? null };
}
