/**
 * The text without what steers a terminal: control characters, and marks that turn the direction of writing around. Tabs
 * and line breaks stay.
 */
export function printable(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(/(?![\t\n])[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, "");
}

/** The same as one line: what breaks a line is a space. */
export function printableLine(text: string): string {
  return printable(text.replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, " "));
}
