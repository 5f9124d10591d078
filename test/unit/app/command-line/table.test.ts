import { describe, expect, it } from "vitest";
import { moneyText, parseMoney } from "../../../../src/app/command-line/money.js";
import { numeric, paintFor, tableLines } from "../../../../src/app/command-line/table.js";

const io = (isTTY: boolean, env: Record<string, string> = {}) => ({ stdout: { write() {}, isTTY }, env });
const columns = ["ID", numeric("TOKENS"), "STATE"];

describe("a table", () => {
  it("has a header, aligns text to the left and numbers to the right, and ends no line with spaces", () => {
    const rows = [
      ["a", "7", ""],
      ["long-id", "1234567", "ready"],
    ];
    expect(tableLines(io(false), columns, rows)).toEqual([
      "ID        TOKENS  STATE",
      "a              7",
      "long-id  1234567  ready",
    ]);
    expect(tableLines(io(false), columns, [])).toEqual([]);
  });

  it("shows colours on a terminal only, and none with NO_COLOR or TERM=dumb", () => {
    const rows = [["a", "7", ["good", "ready"] as const]];
    const green = "\u001b[32mready\u001b[0m";
    expect(tableLines(io(true), columns, rows)[1]).toBe(`a        7  ${green}`);
    for (const plain of [io(false), io(true, { NO_COLOR: "1" }), io(true, { TERM: "dumb" })]) {
      expect(tableLines(plain, columns, rows)).toEqual(["ID  TOKENS  STATE", "a        7  ready"]);
    }
    // An empty variable counts as unset.
    expect(paintFor({ write() {}, isTTY: true }, { NO_COLOR: "" })("bad", "x")).toBe("\u001b[31mx\u001b[0m");
  });

  it("removes control characters of cells (SEC-24)", () => {
    const [, line] = tableLines(io(true), ["NAME"], [["a\u001b[2Jb\nc"]]);
    expect(line).toBe("a[2Jb c");
  });
});

describe("money", () => {
  it.each([
    ["50usd", 50_000_000_000n],
    ["0.25 USD", 250_000_000n],
    ["$12.345678901", 12_345_678_901n],
    ["50", null],
    ["50eur", null],
    ["$", null],
    ["-5usd", null],
    ["0.0000000001usd", null],
  ])("%s is read as %s nano-dollars", (text, nanos) => expect(parseMoney(text)).toBe(nanos));

  it.each([
    [0n, "$0.00"],
    [50_000_000_000n, "$50.00"],
    [12_345_000_000n, "$12.35"],
    [9_999_999n, "$0.00999"],
    [125_000n, "$0.000125"],
    [1n, "$0.000000001"],
  ])("%s nano-dollars are shown as %s", (nanos, text) => expect(moneyText(nanos)).toBe(text));
});
