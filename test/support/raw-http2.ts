import { connect, type Socket } from "node:net";

/** Types of HTTP/2 frames (RFC 9113, section 6). */
const frameType = { data: 0, headers: 1, settings: 4, ping: 6, goaway: 7, continuation: 9 } as const;
const ackFlag = 1;
const endHeadersFlag = 4;
const frameHeadBytes = 9;
const framePayloadMax = 16_384;

export type HeaderList = readonly (readonly [string, string])[];

export interface RawHttp2Options {
  readonly answersPings: boolean;
}

/** A connection of HTTP/2 frames written by hand, for cases that Node's client does not allow. */
export class RawHttp2 {
  /** Frames that arrived, by type. */
  readonly seen = { pings: 0, goaways: 0, bytesOfData: 0 };
  readonly closed: Promise<void>;
  readonly #answersPings: boolean;
  readonly #socket: Socket;
  #unread: Buffer = Buffer.alloc(0);

  constructor(port: number, options: RawHttp2Options) {
    this.#answersPings = options.answersPings;
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.on("error", () => {});
    this.#socket.on("data", (bytes) => this.#read(bytes));
    this.closed = new Promise((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.write(
      Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameType.settings, 0, 0)]),
    );
  }

  /** Sends HEADERS and the CONTINUATION frames that the list needs. */
  sendHeaders(streamId: number, list: HeaderList): void {
    const block = Buffer.concat(list.flatMap(([name, value]) => [Buffer.of(0), literal(name), literal(value)]));
    for (let start = 0; start < block.length; start += framePayloadMax) {
      const isLast = start + framePayloadMax >= block.length;
      const type = start === 0 ? frameType.headers : frameType.continuation;
      const payload = block.subarray(start, start + framePayloadMax);
      this.#socket.write(frame(type, isLast ? endHeadersFlag : 0, streamId, payload));
    }
  }

  /** Sends DATA that ends the stream. */
  sendLast(streamId: number, payload: Buffer): void {
    this.#socket.write(frame(frameType.data, 1, streamId, payload));
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    for (;;) {
      if (this.#unread.length < frameHeadBytes) return;
      const end = frameHeadBytes + this.#unread.readUIntBE(0, 3);
      if (this.#unread.length < end) return;
      this.#receive(this.#unread.readUInt8(3), this.#unread.readUInt8(4), this.#unread.subarray(frameHeadBytes, end));
      this.#unread = this.#unread.subarray(end);
    }
  }

  #receive(type: number, flags: number, payload: Buffer): void {
    if (type === frameType.goaway) this.seen.goaways += 1;
    if (type === frameType.data) this.seen.bytesOfData += payload.length;
    if (type !== frameType.ping || flags === ackFlag) return;
    this.seen.pings += 1;
    if (this.#answersPings) this.#socket.write(frame(frameType.ping, ackFlag, 0, payload));
  }
}

function frame(type: number, flags: number, streamId: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** A string of HPACK without Huffman coding: its length as an integer with a prefix of 7 bits, then its bytes. */
function literal(text: string): Buffer {
  if (text.length < 127) return Buffer.concat([Buffer.of(text.length), Buffer.from(text)]);
  const length = [127];
  let rest = text.length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) length.push(128 + (rest % 128));
  return Buffer.concat([Buffer.of(...length, rest), Buffer.from(text)]);
}
