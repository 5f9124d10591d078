import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { FileSum } from "../files/model-files.js";
import { defaultAlignment, ggufMagic, tensorTypes, toHalf, valueTypes } from "./format.js";

interface PlannedTensor {
  name: string;
  dims: readonly number[];
  type: WritableType;
  typeNumber: number;
  values: number;
  bytes: number;
  make: () => Float32Array;
}

/**
 * Writes a GGUF file of version 3. Metadata keys and tensors are written in the order in which they were added, so equal
 * calls give equal bytes. Tensors are created one at a time during the write, so only one is in memory.
 */
export class GgufWriter {
  readonly #metadata: { key: string; type: number; bytes: Buffer }[] = [];
  readonly #tensors: PlannedTensor[] = [];

  setString(key: string, value: string): this {
    return this.#set(key, valueTypes.string, stringBytes(value));
  }

  setUint32(key: string, value: number): this {
    return this.#set(key, valueTypes.uint32, uint32Bytes(value));
  }

  setFloat32(key: string, value: number): this {
    return this.#set(key, valueTypes.float32, viewBytes(Float32Array.of(value)));
  }

  setBool(key: string, value: boolean): this {
    return this.#set(key, valueTypes.bool, Buffer.of(value ? 1 : 0));
  }

  setStringArray(key: string, values: readonly string[]): this {
    return this.#setArray(key, valueTypes.string, values.length, Buffer.concat(values.map(stringBytes)));
  }

  setInt32Array(key: string, values: readonly number[]): this {
    return this.#setArray(key, valueTypes.int32, values.length, viewBytes(Int32Array.from(values)));
  }

  setFloat32Array(key: string, values: readonly number[]): this {
    return this.#setArray(key, valueTypes.float32, values.length, viewBytes(Float32Array.from(values)));
  }

  /**
   * Adds a tensor. `dims` counts values, the innermost dimension first (the order of the file, reverse of safetensors);
   * `make` is called once while writing and returns all values, whose number is the product of `dims`. The innermost
   * dimension of a Q8_0 tensor must be a multiple of 32.
   */
  tensor(name: string, dims: readonly number[], type: WritableType, make: () => Float32Array): this {
    const [typeNumber, layout] = layoutOf(type);
    const values = dims.reduce((product, dim) => product * dim, 1);
    if ((dims[0] ?? 0) % layout.blockLength !== 0) {
      throw new Error(
        `tensor ${name}: rows of ${dims[0]} values do not fill blocks of ${layout.blockLength} (${type})`,
      );
    }
    const bytes = (values / layout.blockLength) * layout.blockBytes;
    this.#tensors.push({ name, dims, type, typeNumber, values, bytes, make });
    return this;
  }

  /** Writes the file (mode 0600), replacing an existing one. A failure leaves an incomplete file, which the caller removes. */
  async write(path: string): Promise<FileSum> {
    const hash = createHash("sha256");
    const file = await open(path, "w", 0o600);
    let bytes = 0;
    try {
      const put = async (chunk: Uint8Array) => {
        const padded = chunk.byteLength + padding(chunk.byteLength);
        for (const part of [chunk, new Uint8Array(padded - chunk.byteLength)]) {
          hash.update(part);
          await file.writeFile(part);
        }
        bytes += padded;
      };
      await put(this.#header());
      for (const tensor of this.#tensors) await put(madeBytes(tensor));
    } finally {
      await file.close();
    }
    return { bytes, sha256: hash.digest("hex") };
  }

  #set(key: string, type: number, bytes: Buffer): this {
    this.#metadata.push({ key, type, bytes });
    return this;
  }

  #setArray(key: string, itemType: number, count: number, items: Buffer): this {
    return this.#set(key, valueTypes.array, Buffer.concat([uint32Bytes(itemType), uint64Bytes(count), items]));
  }

  #header(): Buffer {
    const parts = [
      uint32Bytes(ggufMagic),
      uint32Bytes(3),
      uint64Bytes(this.#tensors.length),
      uint64Bytes(this.#metadata.length),
    ];
    for (const { key, type, bytes } of this.#metadata) parts.push(stringBytes(key), uint32Bytes(type), bytes);
    let offset = 0;
    for (const { name, dims, typeNumber, bytes } of this.#tensors) {
      parts.push(stringBytes(name), uint32Bytes(dims.length), ...dims.map(uint64Bytes));
      parts.push(uint32Bytes(typeNumber), uint64Bytes(offset));
      offset += bytes + padding(bytes);
    }
    return Buffer.concat(parts);
  }
}

function layoutOf(type: WritableType) {
  for (const entry of tensorTypes) if (entry[1].name === type) return entry;
  throw new Error(`no tensor type ${type}`);
}

function madeBytes(tensor: PlannedTensor): Uint8Array {
  const values = tensor.make();
  if (values.length !== tensor.values) {
    throw new Error(`tensor ${tensor.name}: ${values.length} values were made, its dims say ${tensor.values}`);
  }
  return tensorBytes(values, tensor.type);
}

const padding = (bytes: number): number => (defaultAlignment - (bytes % defaultAlignment)) % defaultAlignment;

const viewBytes = (view: Float32Array | Int32Array): Buffer => Buffer.from(view.buffer);

function uint32Bytes(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64Bytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function stringBytes(text: string): Buffer {
  const utf8 = Buffer.from(text, "utf8");
  return Buffer.concat([uint64Bytes(utf8.byteLength), utf8]);
}

/** The tensor types that the writer supports. */
export type WritableType = "F32" | "F16" | "Q8_0";

const q8BlockLength = 32;
const q8BlockBytes = 34;

/** The bytes of a tensor's values in the given type, little-endian. Q8_0 requires a multiple of 32 values. */
export function tensorBytes(values: Float32Array, type: WritableType): Uint8Array {
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return type === "F16" ? halfBytes(values) : q8Bytes(values);
}

function halfBytes(values: Float32Array): Uint8Array {
  const halves = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index += 1) halves[index] = toHalf(values[index] ?? 0);
  return new Uint8Array(halves.buffer);
}

/** Q8_0: each block of 32 values is a half float, the scale, and 32 signed bytes that are multiplied by it. */
function q8Bytes(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array((values.length / q8BlockLength) * q8BlockBytes);
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < values.length / q8BlockLength; block += 1) {
    writeQ8Block(values.subarray(block * q8BlockLength, (block + 1) * q8BlockLength), view, block * q8BlockBytes);
  }
  return bytes;
}

function writeQ8Block(values: Float32Array, view: DataView, at: number): void {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  const scale = largest / 127;
  const inverse = scale === 0 ? 0 : 1 / scale;
  view.setUint16(at, toHalf(scale), true);
  for (let index = 0; index < values.length; index += 1) {
    const quant = Math.round((values[index] ?? 0) * inverse);
    view.setInt8(at + 2 + index, Math.max(-127, Math.min(127, quant)));
  }
}
