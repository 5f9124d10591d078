import { toHalf } from "./half.js";

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
