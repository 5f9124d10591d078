import { InvalidResponse } from "../protocol/upstream-failure.js";

/** Maximum bytes of one event. */
export const eventBytesMax = 10 * 1_024 * 1_024;

const lf = 10;
const cr = 13;
const space = 32;
const colon = 58;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const empty = Buffer.alloc(0);

/**
 * Splits a stream of server-sent events, which may be cut anywhere between two reads. Lines end with LF, CRLF or CR. Searches
 * stay within one read, so many events in one read take linear time.
 */
export class SseReader {
  /** The current read and the position of its next line. */
  #chunk: Buffer = empty;
  #at = 0;
  /** Whether the read has a CR; without one, lines are found by a native search. */
  #hasCr = false;
  /** Whether the last line ended with CR, so that a LF directly after it belongs to it. */
  #afterCr = false;
  /** The unfinished line of earlier reads, in a buffer whose capacity doubles. */
  #carry: Buffer = empty;
  #carryBytes = 0;
  #isFirstLine = true;
  #isEnded = false;
  /** The data of the unfinished event; null: none. */
  #data: string | null = null;
  #isError = false;
  /** Whether the last event from `next` was marked as an error by its name, or by llama.cpp's field `error`. */
  lastIsError = false;

  /** Adds a read. `next` must be called until it returns null before the next read is added. */
  push(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#at = 0;
    this.#hasCr = chunk.includes(cr);
  }

  /** Must be called when the stream has ended: its last line and event count even without a line break. */
  end(): void {
    this.#isEnded = true;
  }

  /** The data of the next complete event; null: another read is needed. Throws InvalidResponse for too long an event. */
  next(): string | null {
    for (;;) {
      const chunk = this.#chunk;
      if (this.#afterCr && this.#at < chunk.length) {
        this.#afterCr = false;
        if (chunk[this.#at] === lf) this.#at += 1;
      }
      const from = this.#at;
      const end = this.#hasCr ? lineEnd(chunk, from) : chunk.indexOf(lf, from);
      if (end === -1) {
        this.#keep(chunk, from, chunk.length);
        this.#at = chunk.length;
        return this.#isEnded ? this.#last() : null;
      }
      this.#at = end + 1;
      this.#afterCr = chunk[end] === cr;
      if (this.#carryBytes > 0) {
        this.#keep(chunk, from, end);
        if (this.#lineOfCarry()) return this.#takeEvent();
      } else if (this.#line(chunk, from, end)) return this.#takeEvent();
    }
  }

  #last(): string | null {
    if (this.#carryBytes > 0) this.#lineOfCarry();
    return this.#data === null ? null : this.#takeEvent();
  }

  #lineOfCarry(): boolean {
    const length = this.#carryBytes;
    this.#carryBytes = 0;
    return this.#line(this.#carry, 0, length);
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    const needed = this.#carryBytes + to - from;
    if (needed > eventBytesMax) throw tooLong();
    if (needed > this.#carry.length) {
      const larger = Buffer.allocUnsafe(Math.max(4_096, 2 * this.#carry.length, needed));
      this.#carry.copy(larger, 0, 0, this.#carryBytes);
      this.#carry = larger;
    }
    chunk.copy(this.#carry, this.#carryBytes, from, to);
    this.#carryBytes = needed;
  }

  /** Takes a line; true when it completes an event. */
  #line(bytes: Buffer, start: number, end: number): boolean {
    let from = start;
    if (this.#isFirstLine) {
      this.#isFirstLine = false;
      if (end - from >= 3 && bytes.compare(byteOrderMark, 0, 3, from, from + 3) === 0) from += 3;
    }
    if (from === end) {
      if (this.#data !== null) return true;
      this.#isError = false;
      return false;
    }
    if (isField(bytes, from, end, "data")) this.#addData(bytes, from + 4, end);
    else if (isField(bytes, from, end, "event")) this.#isError = fieldValue(bytes, from + 5, end) === "error";
    else if (isField(bytes, from, end, "error")) {
      this.#isError = true;
      this.#addData(bytes, from + 5, end);
    }
    return false;
  }

  #addData(bytes: Buffer, from: number, end: number): void {
    const value = fieldValue(bytes, from, end);
    if (this.#data !== null && this.#data.length + value.length > eventBytesMax) throw tooLong();
    this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }

  #takeEvent(): string {
    const data = this.#data ?? "";
    this.lastIsError = this.#isError;
    this.#data = null;
    this.#isError = false;
    return data;
  }
}

function lineEnd(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === lf || byte === cr) return at;
  }
  return -1;
}

/** Whether the line has this field: its name, alone or before a colon. */
function isField(bytes: Buffer, from: number, end: number, name: string): boolean {
  const { length } = name;
  if (end - from < length || (end - from > length && bytes[from + length] !== colon)) return false;
  for (let i = 0; i < length; i++) if (bytes[from + i] !== name.charCodeAt(i)) return false;
  return true;
}

/** The text after the colon, without one space. */
function fieldValue(bytes: Buffer, colonAt: number, end: number): string {
  const from = bytes[colonAt + 1] === space && colonAt + 1 < end ? colonAt + 2 : colonAt + 1;
  return from >= end ? "" : bytes.toString("utf8", from, end);
}

function tooLong(): InvalidResponse {
  return new InvalidResponse(`an event of the upstream has more than ${eventBytesMax} bytes`);
}
