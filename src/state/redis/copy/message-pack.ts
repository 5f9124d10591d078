/** A value that MessagePack can hold here: a text, an integer from 0 to 2^53, or a list of such values. */
export type Packable = string | number | readonly Packable[];

/** Encodes a value as MessagePack, with the same bytes as `cmsgpack.pack` of Redis. */
export function packMessage(value: Packable): Buffer {
  const parts: Buffer[] = [];
  pack(value, parts);
  return Buffer.concat(parts);
}

function pack(value: Packable, parts: Buffer[]): void {
  if (typeof value === "number") parts.push(packInteger(value));
  else if (typeof value === "string") packText(value, parts);
  else {
    parts.push(head(value.length, { short: [0x90, 15], long: [0xdc, 0xdd] }));
    for (const each of value) pack(each, parts);
  }
}

function packText(text: string, parts: Buffer[]): void {
  const bytes = Buffer.from(text, "utf8");
  const isByteLong = bytes.length > 31 && bytes.length <= 0xff;
  parts.push(
    isByteLong ? Buffer.from([0xd9, bytes.length]) : head(bytes.length, { short: [0xa0, 31], long: [0xda, 0xdb] }),
    bytes,
  );
}

interface Codes {
  /** Code with the length in its low bits, and the longest such length. */
  readonly short: readonly [code: number, max: number];
  /** Codes before a length of 16 and of 32 bits. */
  readonly long: readonly [bits16: number, bits32: number];
}

function head(length: number, { short: [code, max], long: [bits16, bits32] }: Codes): Buffer {
  if (length <= max) return Buffer.from([code | length]);
  return length <= 0xffff ? withNumber(bits16, 2, length) : withNumber(bits32, 4, length);
}

function packInteger(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is not an integer from 0 to 2^53`);
  if (value <= 0x7f) return Buffer.from([value]);
  if (value <= 0xff) return Buffer.from([0xcc, value]);
  if (value <= 0xffff) return withNumber(0xcd, 2, value);
  if (value <= 0xffffffff) return withNumber(0xce, 4, value);
  const buffer = Buffer.alloc(9, 0xcf);
  buffer.writeBigUInt64BE(BigInt(value), 1);
  return buffer;
}

function withNumber(code: number, bytes: 2 | 4, value: number): Buffer {
  const buffer = Buffer.alloc(1 + bytes, code);
  buffer.writeUIntBE(value, 1, bytes);
  return buffer;
}
