import type { ServerResponse } from "node:http";
import type { StreamBuffer } from "../../domain/call/stream-buffer.js";
import type { AbortFlag } from "../../lib/abort-source.js";

/**
 * Number of collected characters at which text is written immediately, before the tick of the event loop ends. It is less if
 * many readers are slow, because what the kernel does not take stays in memory.
 */
const collectedMax = 16 * 1024;

export interface StreamWriterOptions {
  /** Counts the text that the kernel has not taken. */
  readonly buffer: StreamBuffer;
  /** The text is bytes, one for each character. Default: it is encoded in UTF-8. */
  readonly isBinary?: boolean;
  /** Called at every write to the response. */
  readonly written: () => void;
}

/**
 * Writes the text of a stream to a response. The text of one tick of the event loop is sent in one write, and a further one
 * is made only when the kernel has taken the last: a response's own buffers would hold 16 KiB more for each slow reader.
 * Callers of `write` must await `drained` whenever `isBehind` is true.
 */
export class StreamWriter {
  readonly #res: ServerResponse;
  readonly #options: StreamWriterOptions;
  #collected = "";
  #flushIsDue = false;
  /** Bytes of the last write, until the kernel has taken them. */
  #sending = 0;
  #wake: (() => void) | null = null;

  constructor(res: ServerResponse, options: StreamWriterOptions) {
    this.#res = res;
    this.#options = options;
  }

  /** Whether the reader has yet to read before the kernel takes the last write. */
  get isSending(): boolean {
    return this.#sending > 0;
  }

  get isBehind(): boolean {
    if (this.#sending > 0) return true;
    const { length } = this.#collected;
    return length >= collectedMax || this.#options.buffer.isFull(length);
  }

  /** Whole events or messages only: a keep-alive may be sent between any two calls. */
  write(text: string): void {
    this.#collected += text;
    this.#flushLater();
  }

  /** Writes the result of `text`, but only if nothing else waits to be written and the reader is not behind. */
  keepAlive(text: () => string): void {
    if (this.#collected === "" && this.#sending === 0) this.write(text());
  }

  /** Resolves when the reader is no longer behind, when the response is closed, or when `signal` aborts. */
  async drained(signal: AbortFlag): Promise<void> {
    this.#flush();
    if (this.#sending > 0 && !signal.aborted && !this.#res.destroyed) await this.#sentOrEnded(signal);
    // Not now: a reader that was behind gets what its stream can deliver immediately in one write, too.
    this.#flushLater();
  }

  /** Ends the response after `last`. Collected text and `last` are written even if the reader is behind. */
  end(last: string): void {
    if (this.#res.writableEnded || this.#res.destroyed) return;
    this.#res.end(this.#collected + last, this.#options.isBinary === true ? "latin1" : "utf8");
    this.#collected = "";
  }

  #flushLater(): void {
    if (this.#flushIsDue) return;
    this.#flushIsDue = true;
    process.nextTick(() => {
      this.#flushIsDue = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#collected === "" || this.#sending > 0) return;
    if (this.#res.writableEnded || this.#res.destroyed) return;
    const text = this.#collected;
    this.#collected = "";
    const { buffer, isBinary = false, written } = this.#options;
    const bytes = isBinary ? text.length : Buffer.byteLength(text);
    this.#sending = bytes;
    buffer.add(bytes);
    // Node allocates three bytes for each character of a text in UTF-8, and one for each in Latin-1.
    this.#res.write(text, bytes === text.length ? "latin1" : "utf8", this.#sent);
    written();
  }

  readonly #sent = (): void => {
    this.#options.buffer.remove(this.#sending);
    this.#sending = 0;
    if (this.#wake === null) this.#flushLater();
    else this.#wake();
  };

  #sentOrEnded(signal: AbortFlag): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#wake = null;
        this.#res.off("close", done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#wake = done;
      this.#res.on("close", done);
      signal.addEventListener("abort", done);
    });
  }
}
