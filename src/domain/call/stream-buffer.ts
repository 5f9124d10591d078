/** Size of the budget that all streams of a process share. */
const sharedBytesMax = 16 * 1024 * 1024;
/** What each part of a stream's buffer may hold although the budget is used up: a few tokens, so that every stream goes on. */
const partBytesMin = 1024;

export interface StreamBufferLimits {
  /** Maximum of one part of a stream's buffer. May change at any time. */
  readonly streamBufferBytesMax: number;
}

/**
 * The memory of all streams of a process for data that their readers have not taken. Each part of a stream's buffer may hold
 * at most `streamBufferBytesMax`, and at most what the budget has left: the dynamic threshold of shared-memory switches
 * (Choudhury and Hahne). A few slow readers get large buffers; as more wait, each gets less, and their engines pause earlier.
 */
export class StreamBuffers {
  readonly limits: StreamBufferLimits;
  /** Bytes that all streams hold now; written by StreamBuffer only. */
  bytes = 0;

  constructor(limits: StreamBufferLimits) {
    this.limits = limits;
  }
}

/** The part of the shared budget that one stream uses. After `close`, which its call ensures, it holds nothing. */
export class StreamBuffer {
  readonly #shared: StreamBuffers;
  #bytes = 0;
  #isClosed = false;

  constructor(shared: StreamBuffers) {
    this.#shared = shared;
  }

  /** Whether a part of the buffer with so many bytes must not grow. */
  isFull(partBytes: number): boolean {
    if (partBytes < partBytesMin) return false;
    const { limits, bytes } = this.#shared;
    const { streamBufferBytesMax } = limits;
    // A single stream reaches its maximum, also if that is larger than the budget.
    return partBytes >= Math.min(streamBufferBytesMax, Math.max(sharedBytesMax, 2 * streamBufferBytesMax) - bytes);
  }

  /** Holds `bytes` more. */
  add(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#shared.bytes += bytes;
  }

  /** Gives back bytes that were added. */
  remove(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes -= bytes;
    this.#shared.bytes -= bytes;
  }

  /** Gives back all that the stream holds. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#shared.bytes -= this.#bytes;
  }
}
