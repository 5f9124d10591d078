/** Usage as a CSV file. */
import type { UsageRow } from "./sums.js";

/** Rows with ids in addition to names, and unformatted numbers. */
export function csvRows(
  rows: readonly UsageRow[],
  nameOf: (id: string) => string,
): readonly (readonly (string | number)[])[] {
  const head = [
    ...["start_time", "end_time", "model", "api_key_id", "api_key_name", "requests"],
    ...["prompt_tokens", "completion_tokens", "cached_tokens", "cost_nano_dollars", "operation"],
  ];
  return [
    head,
    ...rows.map((row) => [
      row.startTime,
      row.endTime,
      row.model,
      row.apiKeyId,
      row.apiKeyId === "" ? "" : nameOf(row.apiKeyId),
      row.requests,
      row.promptTokens,
      row.completionTokens,
      row.cachedTokens,
      row.costNanoDollars,
      row.operation,
    ]),
  ];
}

/** Characters that make a spreadsheet run a cell as a formula. */
const formulaStart = /^[=+\-@\t\r\n＝＋－＠]/u;

/** Formats rows by RFC 4180 with CRLF. Text that a spreadsheet would run as a formula gets a leading apostrophe. */
export function csvOf(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((cells) => `${cells.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = formulaStart.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
