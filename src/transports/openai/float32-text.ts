/** Bytes that `writeFloat32` needs at most: a sign and 21 digits, where no exponent is written yet. */
export const float32CharsMax = 24;

/** Decimals of 6 digits always survive a trip through float32, 9 always identify one. */
const digitsMin = 6;
const digitsMax = 9;

/** Powers of ten up to 10^22 are exact, so a division by one rounds once. */
const powersOfTen: readonly number[] = Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);

const [zero, point, minus] = [..."0.-"].map((char) => char.charCodeAt(0)) as [number, number, number];

/**
 * Writes the shortest decimal that reads back as the same float32, in ASCII, and returns the offset behind it. JSON
 * numbers of a float32 printed as a double would be twice as long without saying more. `value` must be a finite
 * float32. The numbers of embeddings, from 0.000001 to 1, are written digit by digit: twenty times as fast as text.
 */
export function writeFloat32(bytes: Uint8Array, offset: number, value: number): number {
  let at = offset;
  const magnitude = Math.abs(value);
  if (value < 0) bytes[at++] = minus;
  if (!(magnitude >= 1e-6 && magnitude < 1)) return writeText(bytes, at, shortestText(magnitude));
  // Zeros between the point and the first digit.
  let zeros = 0;
  while (magnitude * power(zeros + 1) < 1) zeros += 1;
  let digits = digitsMin;
  let whole = Math.round(magnitude * power(digits + zeros));
  while (digits < digitsMax && Math.fround(whole / power(digits + zeros)) !== magnitude) {
    digits += 1;
    whole = Math.round(magnitude * power(digits + zeros));
  }
  let places = digits + zeros;
  while (whole % 10 === 0) {
    whole /= 10;
    places -= 1;
  }
  bytes[at] = zero;
  bytes[at + 1] = point;
  const end = at + 2 + places;
  for (let place = end - 1; place > at + 1; place -= 1) {
    const rest = Math.trunc(whole / 10);
    bytes[place] = zero + whole - rest * 10;
    whole = rest;
  }
  return end;
}

function power(exponent: number): number {
  return powersOfTen[exponent] ?? Number.NaN;
}

function writeText(bytes: Uint8Array, offset: number, text: string): number {
  for (let i = 0; i < text.length; i += 1) bytes[offset + i] = text.charCodeAt(i);
  return offset + text.length;
}

function shortestText(magnitude: number): string {
  for (let digits = 1; digits < digitsMax; digits += 1) {
    const rounded = Number(magnitude.toPrecision(digits));
    if (Math.fround(rounded) === magnitude) return String(rounded);
  }
  return String(Number(magnitude.toPrecision(digitsMax)));
}
