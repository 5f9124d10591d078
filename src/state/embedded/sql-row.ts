/** Reads columns of a row. A column that the row lacks is a fault of the query and reads as its text or number would. */
import type { SqlRow } from "./sqlite-binding.js";

export function text(row: SqlRow, column: string): string {
  return String(row[column]);
}

export function textOrNull(row: SqlRow, column: string): string | null {
  const value = row[column] ?? null;
  return value === null ? null : String(value);
}

/** For integers below 2^53: times, counts, versions. Sums are read with `readExactly`. */
export function integer(row: SqlRow, column: string): number {
  return Number(row[column]);
}

export function integerOrNull(row: SqlRow, column: string): number | null {
  const value = row[column] ?? null;
  return value === null ? null : Number(value);
}

export function bigint(row: SqlRow, column: string): bigint {
  return BigInt(row[column] ?? 0);
}
