import { describe, expect, it } from "vitest";
import { MessageDecoder } from "../../../../src/transports/grpc/message-decoder.js";

/** A message with its head: flag, length, content. */
function framed(content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

function contentOf(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, i) => i % 251));
}

describe("the decoder of gRPC messages", () => {
  it.each([1, 3, 5, 7, 16_384, 65_536, 10_000_000])("returns the same messages from parts of %i bytes", (size) => {
    const lengths = size < 16_384 ? [0, 1, 300, 70_000] : [0, 70_000, 1_500_000, 2_400_000, 5];
    const messages = lengths.map((length) => framed(contentOf(length)));
    const all = Buffer.concat(messages);
    const decoder = new MessageDecoder(3_000_000);
    const decoded: Buffer[] = [];
    for (let at = 0; at < all.length; at += size) decoded.push(...decoder.write(all.subarray(at, at + size)));
    expect(decoded.map(({ length }) => length)).toEqual(messages.map(({ length }) => length));
    expect(Buffer.concat(decoded).equals(all)).toBe(true);
  });

  it("throws for a message whose announced length is above the limit, before any byte of it has arrived (SEC-5)", () => {
    const head = framed(contentOf(1_001)).subarray(0, 5);
    expect(() => new MessageDecoder(1_000).write(head)).toThrow("the message has 1001 bytes; at most 1000 are allowed");
  });

  it("frees the memory of unfinished messages without a garbage collection (E-2)", () => {
    const heldMib = (): number => process.memoryUsage().external / 1_048_576;
    const head = framed(contentOf(0)).subarray(0, 5);
    head.writeUInt32BE(20_000_000, 1);
    const part = Buffer.alloc(1_048_576, 1);
    const decoders = Array.from({ length: 20 }, () => new MessageDecoder(20_000_000));
    for (const decoder of decoders) {
      decoder.write(head);
      for (let i = 0; i < 10; i += 1) decoder.write(part);
    }
    const before = heldMib();
    for (const decoder of decoders) decoder.end();
    expect(before - heldMib()).toBeGreaterThan(199);
    expect(decoders[0]?.write(part)).toEqual([]);
  });
});
