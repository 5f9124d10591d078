const asFloat = new Float32Array(1);
const asBits = new Uint32Array(asFloat.buffer);

/**
 * A number as the 16 bits of a half float. The rounding is part of the pinned sums of converted models, so it must stay
 * as it is: halves away from zero; below the smallest normal half (6.1e-5) the mantissa is cut and one is added, and a
 * mantissa that overflows there becomes 0. The error stays below one step of the subnormal range (6e-8), except for that
 * last value, which is lost whole. Too large becomes infinity; NaN is not handled, callers have none.
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

/** The number that 16 bits of a half float stand for. */
export function fromHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}
