/** Strips control and bidi characters from text for a terminal; keeps tabs and line breaks. */
export function printable(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(/(?![\t\n])[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, "");
}

/** Does the same as `printable`, and turns line breaks into spaces. */
export function printableLine(text: string): string {
  return printable(text.replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, " "));
}

const units = ["bytes", "kB", "MB", "GB", "TB"] as const;

/** A size for people, in decimal units: `98.4 MB`. */
export function byteText(bytes: number): string {
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const number = bytes / 1000 ** power;
  return `${power === 0 ? number : number.toFixed(number < 100 ? 1 : 0)} ${units[power]}`;
}

/** The message of an error; any other thrown value as text. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
