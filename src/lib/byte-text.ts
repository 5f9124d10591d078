const units = ["bytes", "kB", "MB", "GB", "TB"] as const;

/** A size for people, in decimal units: `98.4 MB`. */
export function byteText(bytes: number): string {
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const number = bytes / 1000 ** power;
  return `${power === 0 ? number : number.toFixed(number < 100 ? 1 : 0)} ${units[power]}`;
}
