/** Constants of the GGUF format, shared by the reader and the writer. */

/** The first four bytes, "GGUF", read as a little-endian number. */
export const ggufMagic = 0x46554747;

/** Alignment of each tensor's data in bytes, unless `general.alignment` states another. */
export const defaultAlignment = 32;

/** Type numbers of metadata values. */
export const valueTypes = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  array: 9,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const;

/** A tensor type: its values come in blocks of `blockLength` values that take `blockBytes` bytes. */
interface TensorType {
  name: string;
  blockLength: number;
  blockBytes: number;
}

const type = (name: string, blockLength: number, blockBytes: number): TensorType => ({ name, blockLength, blockBytes });

/** The tensor types that the engine can read, by their number in the file. Withdrawn types are absent. */
export const tensorTypes: ReadonlyMap<number, TensorType> = new Map([
  [0, type("F32", 1, 4)],
  [1, type("F16", 1, 2)],
  [2, type("Q4_0", 32, 18)],
  [3, type("Q4_1", 32, 20)],
  [6, type("Q5_0", 32, 22)],
  [7, type("Q5_1", 32, 24)],
  [8, type("Q8_0", 32, 34)],
  [9, type("Q8_1", 32, 36)],
  [10, type("Q2_K", 256, 84)],
  [11, type("Q3_K", 256, 110)],
  [12, type("Q4_K", 256, 144)],
  [13, type("Q5_K", 256, 176)],
  [14, type("Q6_K", 256, 210)],
  [15, type("Q8_K", 256, 292)],
  [16, type("IQ2_XXS", 256, 66)],
  [17, type("IQ2_XS", 256, 74)],
  [18, type("IQ3_XXS", 256, 98)],
  [19, type("IQ1_S", 256, 50)],
  [20, type("IQ4_NL", 32, 18)],
  [21, type("IQ3_S", 256, 110)],
  [22, type("IQ2_S", 256, 82)],
  [23, type("IQ4_XS", 256, 136)],
  [24, type("I8", 1, 1)],
  [25, type("I16", 1, 2)],
  [26, type("I32", 1, 4)],
  [27, type("I64", 1, 8)],
  [28, type("F64", 1, 8)],
  [29, type("IQ1_M", 256, 56)],
  [30, type("BF16", 1, 2)],
  [34, type("TQ1_0", 256, 54)],
  [35, type("TQ2_0", 256, 66)],
  [39, type("MXFP4", 32, 17)],
]);

const asFloat = new Float32Array(1);
const asBits = new Uint32Array(asFloat.buffer);

/**
 * Converts a number to the 16 bits of a half float. The expected sums of converted models depend on the rounding, so it must
 * not change: ties are rounded away from zero. Below the smallest normal half (6.1e-5) the mantissa is cut and one is added;
 * a mantissa that overflows by this becomes 0. The error stays below one step of the subnormal range (6e-8), except for a
 * value whose mantissa overflows. Too large numbers become infinity. NaN is not supported, because no caller passes it.
 */
export function toHalf(value: number): number {
  asFloat[0] = value;
  const bits = asBits[0] ?? 0;
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  const mantissa = bits & 0x7fffff;
  if (exponent >= 31) return sign | 0x7c00;
  if (exponent > 0) return (sign | (exponent << 10) | (mantissa >> 13)) + ((mantissa >> 12) & 1);
  if (exponent < -10) return sign;
  return sign | ((((mantissa | 0x800000) >> (14 - exponent)) + 1) & 0x3ff);
}

/** The value of the 16 bits of a half float. */
export function fromHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}
