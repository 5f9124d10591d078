/** Decimals of 6 digits always survive a trip through float32, 9 always identify one. */
const digitsMin = 6;
const digitsMax = 9;

/**
 * The shortest decimal that reads back as the same float32. JSON numbers of a float32 printed as a double would be
 * twice as long without saying more. `value` must be a finite float32.
 */
export function float32Text(value: number): string {
  const magnitude = Math.abs(value);
  // Outside of this range the powers of ten below are not exact.
  if (!(magnitude >= 1e-9 && magnitude < 1e9)) return value === 0 ? "0" : byPrecision(value);
  const exponent = Math.floor(Math.log10(magnitude));
  for (let digits = digitsMin; digits < digitsMax; digits += 1) {
    const scale = 10 ** Math.abs(digits - 1 - exponent);
    const rounded = digits - 1 >= exponent ? Math.round(value * scale) / scale : Math.round(value / scale) * scale;
    if (Math.fround(rounded) === value) return String(rounded);
  }
  return byPrecision(value);
}

function byPrecision(value: number): string {
  for (let digits = digitsMin; digits < digitsMax; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return String(rounded);
  }
  return String(Number(value.toPrecision(digitsMax)));
}
