import type { ServerResponse } from "node:http";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { ArrivingItems, StreamBuffer } from "../../lib/collections.js";
import { writeText } from "./answer.js";
import type { Call, Exchange } from "./call.js";

/**
 * Number of collected characters at which text is written immediately, before the tick of the event loop ends. It is less if
 * many readers are slow, because what the kernel does not take stays in memory.
 */
const collectedMax = 16 * 1024;

interface StreamWriterOptions {
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
  #headIsDue = false;
  /** False for a client of HTTP/1.0, whose answer ends with its connection. */
  #isChunked = false;
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

  /** Must be called first. Sends the head, in one write with the text of this tick if there is any. */
  begin(headers: string[]): void {
    const res = this.#res;
    res.writeHead(200, headers);
    // Node would send a chunk in four parts with a slower vectored write.
    this.#isChunked = res.chunkedEncoding;
    res.chunkedEncoding = false;
    this.#headIsDue = true;
    this.#flushLater();
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
    const text = this.#collected + last;
    this.#collected = "";
    this.#send(text, this.#bytesOf(text), true);
    this.#res.end();
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
    if (this.#sending > 0 || this.#res.writableEnded || this.#res.destroyed) return;
    const text = this.#collected;
    if (text === "") {
      if (this.#headIsDue) this.#res.flushHeaders();
      this.#headIsDue = false;
      return;
    }
    this.#headIsDue = false;
    this.#collected = "";
    const { buffer, written } = this.#options;
    const bytes = this.#bytesOf(text);
    this.#sending = bytes;
    buffer.add(bytes);
    this.#send(text, bytes, false, this.#sent);
    written();
  }

  #bytesOf(text: string): number {
    return this.#options.isBinary === true ? text.length : Buffer.byteLength(text);
  }

  /** Writes text of `bytes` bytes in one piece, as a chunk if the answer has chunks. */
  #send(text: string, bytes: number, isLast: boolean, sent?: () => void): void {
    let piece = text;
    if (this.#isChunked) {
      if (text !== "") piece = `${bytes.toString(16)}\r\n${text}\r\n`;
      if (isLast) piece += "0\r\n\r\n";
    }
    if (piece !== "") writeText(this.#res, piece, bytes + piece.length - text.length, sent);
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

/** The writer of a call's answer in parts. From now on a stalled reader ends the call. */
export function streamWriterOf(call: Call, isBinary = false): StreamWriter {
  const { buffer } = call.ctx;
  const writer = new StreamWriter(call.res, { buffer, isBinary, written: () => call.touched() });
  call.watch(() => writer.isSending);
  return writer;
}

/** Start and end of an event. Its data is one line: clients with their own SSE parser expect exactly this form. */
export const sseEventStart = "data: ";
export const sseEventEnd = "\n\n";

/** The last event of a successful stream. */
export const sseDone = sseEvent("[DONE]");

/** Ends with one line feed, not a blank line: some decoders would dispatch an empty event at a blank line and fail. */
export const sseKeepAliveComment = ": keep-alive\n";

/** An event; `data` must not have a line feed. JSON.stringify writes none. */
export function sseEvent(data: string): string {
  return sseEventStart + data + sseEventEnd;
}

/** Data sent on a silent stream (SSE-9). */
export type KeepAlive = "comment" | "chunk" | "off";

/** Writes the events of one stream in the form of an API family. Each returned text is whole events, or empty. */
export interface StreamFrames<M> {
  /** The events before the first item. Absent: none. */
  begin?(): string;
  /** The events for the next item of the answer. */
  frame(item: M): string;
  /** Work before the events that end a successful stream, such as storing the answer. Absent: none. */
  beforeEnd?(): Promise<void>;
  /** The events that end a successful stream. */
  end(): string;
  /** The events that end a stream after a failure; `error` is the family's JSON. Absent: one event with that JSON. */
  failed?(error: object): string;
  /** An event without effect, for clients that need events instead of comments; null when none can be sent. */
  keepAlive(): string | null;
}

const eventStream: readonly string[] = [
  ...["content-type", "text/event-stream; charset=utf-8"],
  ...["cache-control", "no-cache"],
  ...["x-accel-buffering", "no"],
];

/**
 * Writes an answer that can no longer become an HTTP error, as server-sent events. A failure becomes an event in the
 * stream, which then ends without its end marker (SERR-1, SERR-4).
 */
export async function streamAnswer<M>(
  call: Call,
  exchange: Exchange,
  items: ArrivingItems<M>,
  frames: StreamFrames<M>,
  keepAlive: KeepAlive,
): Promise<void> {
  const { signal, res } = call;
  const sse = streamWriterOf(call);
  sse.begin(exchange.headers([...eventStream]));
  if (keepAlive !== "off") {
    const event = () => (keepAlive === "chunk" ? frames.keepAlive() : null) ?? sseKeepAliveComment;
    call.onSilence = () => sse.keepAlive(event);
  }
  const begun = frames.begin?.();
  if (begun !== undefined) sse.write(begun);
  try {
    for await (const first of items) {
      // A read of an upstream often brings many items: a promise for each of them would cost a tenth of the stream.
      for (let item: M | undefined = first; item !== undefined; item = items.takeNow()) {
        sse.write(frames.frame(item));
        if (sse.isBehind) await sse.drained(signal);
        if (res.destroyed) return;
      }
    }
    if (frames.beforeEnd !== undefined) await frames.beforeEnd();
    sse.end(frames.end());
  } catch (thrown) {
    const error = exchange.errorToJson(call.toError(thrown));
    sse.end(frames.failed?.(error) ?? sseEvent(JSON.stringify(error)));
  }
}
