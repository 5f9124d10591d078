import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errorRow, errors, grpcStatus } from "../../../src/contract/errors.js";

const statusNames = new Map<number, string>(Object.entries(grpcStatus).map(([name, number]) => [number, name]));

/** The row that `docs/errors.md` must have for a code. */
function documented(code: ErrorCode): string {
  const row = errorRow(code);
  const retry =
    row.shouldRetry === undefined ? (row.retryable ? "yes" : "no") : `${row.shouldRetry ? "yes" : "no"}, said`;
  return `| \`${code}\` | ${row.http} | \`${row.type}\` | ${statusNames.get(row.grpc)} | ${retry} | ${row.when} |`;
}

describe("docs/errors.md", () => {
  it("has the row of src/contract/errors.ts for every code, and no other row", () => {
    const rows = readFileSync("docs/errors.md", "utf8")
      .split("\n")
      .filter((line) => line.startsWith("| `"));
    const codes = Object.keys(errors) as ErrorCode[];
    expect(rows).toEqual(codes.map(documented));
  });

  it("names every gRPC status that a code uses", () => {
    const codes = Object.keys(errors) as ErrorCode[];
    expect(codes.filter((code) => !statusNames.has(errorRow(code).grpc))).toEqual([]);
  });
});
