import type { Writable } from "node:stream";
import { errorOfEnd } from "../../domain/call/call-context.js";
import type { RpcStream } from "../../domain/rpc/rpc-service.js";
import type { StreamBuffer } from "../../lib/collections.js";
import type { OpenCall } from "./call.js";

type SendingCall = Pick<OpenCall, "abort" | "buffer" | "readerFellBehind" | "readerCaughtUp">;

/**
 * Sends all items of a stream with backpressure. While the client does not read, further items are merged into one message;
 * at the first item that cannot be merged, or does not fit into the call's buffer, no more are requested. Rejects when the
 * items fail or the call is aborted.
 */
export async function sendStream<O>(call: Writable, stream: RpcStream<O>, open: SendingCall): Promise<void> {
  const source = new Lookahead(stream.items);
  const messages = new SentMessages(call, open.buffer, stream.bytesOf);
  for (let next = await source.take(); !next.done; ) {
    messages.send(next.value);
    if (!messages.isBehind) {
      next = await source.take();
      continue;
    }
    open.readerFellBehind();
    next = await nextForSlowReader(messages, source, stream, open);
    open.readerCaughtUp();
  }
}

/** Waits until the client has read all messages. Resolves with the merged items that arrived meanwhile, or the next item. */
async function nextForSlowReader<O>(
  messages: SentMessages<O>,
  source: Lookahead<O>,
  { merge }: RpcStream<O>,
  { abort, buffer }: SendingCall,
): Promise<IteratorResult<O>> {
  let merged: IteratorResult<O, never> | null = null;
  let bytes = 0;
  const onAbort = (): void => messages.wake();
  abort.addEventListener("abort", onAbort);
  try {
    for (let canMerge = true; !messages.areRead; ) {
      if (abort.aborted) throw errorOfEnd(abort.reason);
      const seen: IteratorResult<O> | null = await messages.readOr(canMerge ? source.peek() : null);
      if (seen === null) continue;
      const longer: IteratorResult<O, never> | null =
        seen.done || buffer.isFull(bytes) ? null : joined(merged, seen.value, merge);
      canMerge = longer !== null;
      if (seen.done || longer === null) continue;
      const added = messages.bytesOf(seen.value);
      bytes += added;
      buffer.add(added);
      merged = longer;
      source.drop();
    }
  } finally {
    abort.removeEventListener("abort", onAbort);
    buffer.remove(bytes);
  }
  return merged ?? source.take();
}

function joined<O>(
  merged: IteratorResult<O, never> | null,
  next: O,
  merge: RpcStream<O>["merge"],
): IteratorResult<O, never> | null {
  if (merged === null) return { done: false, value: next };
  const value = merge?.(merged.value, next) ?? null;
  return value === null ? null : { done: false, value };
}

/** Estimated memory of a message of a stream that does not estimate it. */
const otherMessageBytes = 1024;

/** The messages of a call that the client has not read. */
class SentMessages<O> {
  readonly bytesOf: (message: O) => number;
  readonly #call: Writable;
  readonly #buffer: StreamBuffer;
  #bytes = 0;
  #count = 0;
  #wake: (() => void) | null = null;

  constructor(call: Writable, buffer: StreamBuffer, bytesOf: RpcStream<O>["bytesOf"]) {
    this.#call = call;
    this.#buffer = buffer;
    this.bytesOf = bytesOf ?? (() => otherMessageBytes);
  }

  /** Whether no further message may be sent. While the budget of all streams is used up, one message is sent at a time. */
  get isBehind(): boolean {
    return this.#call.writableNeedDrain || this.#buffer.isFull(this.#bytes);
  }

  get areRead(): boolean {
    return this.#count === 0;
  }

  send(message: O): void {
    const bytes = this.bytesOf(message);
    this.#count += 1;
    this.#bytes += bytes;
    this.#buffer.add(bytes);
    this.#call.write(message, () => {
      this.#count -= 1;
      this.#bytes -= bytes;
      this.#buffer.remove(bytes);
      if (this.areRead) this.wake();
    });
  }

  /**
   * Resolves with the result of `next` when it is there, or with null when all messages are read or `wake` is called.
   * Not Promise.race: the many races of a slow reader would all be kept by the promise that they wait for.
   */
  readOr<R>(next: Promise<R> | null): Promise<R | null> {
    return new Promise((resolve, reject) => {
      this.#wake = () => resolve(null);
      next?.then(resolve, reject);
    });
  }

  wake(): void {
    this.#wake?.();
    this.#wake = null;
  }
}

/** An iterator whose next result can be peeked at. */
class Lookahead<O> {
  readonly #source: AsyncIterator<O>;
  #next: Promise<IteratorResult<O>> | null = null;

  constructor(items: AsyncIterable<O>) {
    this.#source = items[Symbol.asyncIterator]();
  }

  peek(): Promise<IteratorResult<O>> {
    this.#next ??= this.#source.next();
    return this.#next;
  }

  drop(): void {
    this.#next = null;
  }

  take(): Promise<IteratorResult<O>> {
    const next = this.peek();
    this.#next = null;
    return next;
  }
}
