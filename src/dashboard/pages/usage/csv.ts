/** Tables as files. */

/** First characters by which a spreadsheet takes a text for a formula and runs it. */
const formulaStart = /^[=+\-@\t\r\n＝＋－＠]/u;

/** Rows by RFC 4180, ended by CRLF. A text that a spreadsheet would run is led by an apostrophe, which it shows as text. */
export function csvOf(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((cells) => `${cells.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = formulaStart.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
