import { freeBuffer } from "../http/free-buffer.js";

/** Compressed flag and length before each message of gRPC. */
const headBytes = 5;
/** Size of the first segment of a message that arrives in parts. Each one is twice as large as the one before, up to the last. */
const firstSegmentBytes = 65_536;
const lastSegmentBytes = 1_048_576;

/**
 * Replaces grpc-js's decoder of the messages of one call. grpc-js keeps the parts of a message until it is complete. Each part
 * is a slice of a buffer of 64 KiB into which Node has read several streams, so messages that never become complete hold
 * several times the bytes that they were charged for, in memory that malloc does not return to the system afterwards.
 * Here a message that arrives in parts has memory of its own, which grows with it and is returned at once.
 */
export class MessageDecoder {
  /** Limit of a message's announced length. grpc-js reports an error that is thrown here as RESOURCE_EXHAUSTED. */
  maxReadMessageLength: number;
  readonly #head = Buffer.alloc(headBytes);
  #headLength = 0;
  #partial: PartialMessage | null = null;
  #isOver = false;

  constructor(bytesMax: number) {
    this.maxReadMessageLength = bytesMax;
  }

  /** Returns the messages that `data` completes, each with its head. */
  write(data: Buffer): Buffer[] {
    const messages: Buffer[] = [];
    for (let at = 0; at < data.length && !this.#isOver; ) {
      if (this.#partial !== null) {
        at += this.#partial.add(data.subarray(at));
        if (!this.#partial.isComplete) break;
        messages.push(this.#partial.take());
        this.#partial = null;
        continue;
      }
      const copied = data.copy(this.#head, this.#headLength, at);
      this.#headLength += copied;
      at += copied;
      if (this.#headLength < headBytes) break;
      this.#headLength = 0;
      const length = this.#announcedLength();
      if (length > data.length - at) {
        this.#partial = new PartialMessage(this.#head, length);
      } else {
        messages.push(Buffer.concat([this.#head, data.subarray(at, at + length)]));
        at += length;
      }
    }
    return messages;
  }

  /** Drops a message that is not complete. Whatever still arrives is ignored. */
  end(): void {
    this.#isOver = true;
    this.#partial?.free();
    this.#partial = null;
  }

  #announcedLength(): number {
    const length = this.#head.readUInt32BE(1);
    if (length > this.maxReadMessageLength) {
      throw new Error(`the message has ${length} bytes; at most ${this.maxReadMessageLength} are allowed`);
    }
    return length;
  }
}

/** ES2024; Node 20 has it. */
type MappedMemory = new (bytes: number, options: { maxByteLength: number }) => ArrayBuffer;

/** A message of known length that has not arrived completely. */
class PartialMessage {
  /** Bytes that are missing. */
  #missing: number;
  readonly #segments: Buffer[] = [];
  /** The last segment's part that is not filled. */
  #room: Buffer;

  /** `length`: of the message without its head. */
  constructor(head: Buffer, length: number) {
    this.#missing = headBytes + length;
    this.#room = this.#map(firstSegmentBytes);
    this.add(head);
  }

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  /** Copies the bytes that belong to this message and returns their number. */
  add(data: Buffer): number {
    const taken = Math.min(this.#missing, data.length);
    for (let at = 0; at < taken; ) {
      if (this.#room.length === 0) this.#room = this.#map(2 * (this.#segments.at(-1)?.length ?? 0));
      const copied = data.copy(this.#room, 0, at, taken);
      this.#room = this.#room.subarray(copied);
      this.#missing -= copied;
      at += copied;
    }
    return taken;
  }

  /** Returns the message in one buffer and frees the segments. */
  take(): Buffer {
    const message = Buffer.concat(this.#segments);
    this.free();
    return message;
  }

  free(): void {
    for (const segment of this.#segments) freeBuffer(segment);
  }

  /** A resizable buffer consists of pages that are mapped for it alone, so they return to the system when it is freed. */
  #map(bytesMax: number): Buffer {
    const maxByteLength = Math.min(bytesMax, lastSegmentBytes, this.#missing);
    const segment = Buffer.from(new (ArrayBuffer as unknown as MappedMemory)(maxByteLength, { maxByteLength }));
    this.#segments.push(segment);
    return segment;
  }
}
