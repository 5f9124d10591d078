import { type FileCursor, malformedGguf } from "./file-cursor.js";
import { tensorTypes, toHalf } from "./format.js";

/** One tensor as the header announces it. */
export interface AnnouncedTensor {
  name: string;
  values: number;
  bytes: number;
  /** From the start of the data section. */
  offset: number;
}

const nameBytesMax = 63;
const dimsMax = 4;

/** Reads the announcements of `count` tensors and checks each by itself. Throws ModelFileError. */
export async function readTensors(cursor: FileCursor, count: number): Promise<AnnouncedTensor[]> {
  const tensors: AnnouncedTensor[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index += 1) {
    const tensor = await readTensor(cursor);
    if (names.has(tensor.name)) throw malformedGguf(`it has the tensor ${JSON.stringify(tensor.name)} twice`);
    names.add(tensor.name);
    tensors.push(tensor);
  }
  return tensors;
}

async function readTensor(cursor: FileCursor): Promise<AnnouncedTensor> {
  const name = await cursor.text(nameBytesMax);
  const label = `tensor ${JSON.stringify(name)}`;
  const dimCount = await cursor.uint32();
  if (dimCount < 1 || dimCount > dimsMax) throw malformedGguf(`${label} has ${dimCount} dimensions`);
  let values = 1;
  let rowLength = 0;
  for (let index = 0; index < dimCount; index += 1) {
    const dim = await cursor.uint64();
    if (dim < 1) throw malformedGguf(`${label} has an empty dimension`);
    if (index === 0) rowLength = dim;
    values *= dim;
    if (!Number.isSafeInteger(values)) throw malformedGguf(`${label} has more values than can be counted`);
  }
  const typeNumber = await cursor.uint32();
  const type = tensorTypes.get(typeNumber);
  if (!type) throw malformedGguf(`${label} is of the unknown type ${typeNumber}`);
  if (rowLength % type.blockLength !== 0) {
    throw malformedGguf(`${label} has rows of ${rowLength} values, which are no whole blocks of ${type.name}`);
  }
  const bytes = (values / type.blockLength) * type.blockBytes;
  if (!Number.isSafeInteger(bytes)) throw malformedGguf(`${label} has more bytes than can be counted`);
  return { name, values, bytes, offset: await cursor.uint64() };
}

/** The tensor types that the writer can make. */
export type WritableType = "F32" | "F16" | "Q8_0";

const q8BlockLength = 32;
const q8BlockBytes = 34;

/** The bytes of a tensor's values in the given type, little-endian. Q8_0 takes a multiple of 32 values. */
export function tensorBytes(values: Float32Array, type: WritableType): Uint8Array {
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return type === "F16" ? halfBytes(values) : q8Bytes(values);
}

function halfBytes(values: Float32Array): Uint8Array {
  const halves = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index += 1) halves[index] = toHalf(values[index] ?? 0);
  return new Uint8Array(halves.buffer);
}

/** Each block of 32 values: one half as the scale, then 32 signed bytes that it multiplies. */
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
