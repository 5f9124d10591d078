import { describe, expect, it } from "vitest";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { createStderrLog } from "../../../../src/engines/llama/child-process.js";

function record() {
  const lines: [string, unknown][] = [];
  const at = (level: string) => (fields: object) => {
    lines.push([level, "line" in fields ? fields.line : null]);
  };
  const log: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return { lines, stderr: createStderrLog(log, { pid: 1 }) };
}

describe("createStderrLog", () => {
  it("joins lines that arrive in pieces, and logs an unfinished last line at the end", () => {
    const { lines, stderr } = record();
    stderr.push("load");
    stderr.push("ed 1\nloaded 2\nlo");
    expect(lines).toEqual([
      ["debug", "loaded 1"],
      ["debug", "loaded 2"],
    ]);
    stderr.push("aded 3");
    stderr.end();
    expect(lines.at(-1)).toEqual(["debug", "loaded 3"]);
  });

  it("logs lines about errors as warnings", () => {
    const { lines, stderr } = record();
    stderr.push("GGML_ASSERT(n > 0) failed\nall is well\n");
    expect(lines.map(([level]) => level)).toEqual(["warn", "debug"]);
  });

  it("removes control characters and colours, which could forge lines in a terminal", () => {
    const { lines, stderr } = record();
    stderr.push("\u001b[31mred\u001b[0m\u0007 a\rb\u009bc\n");
    expect(lines).toEqual([["debug", "red abc"]]);
  });

  it("cuts long lines, even a line that never ends, and keeps the last five lines", () => {
    const { lines, stderr } = record();
    for (let i = 0; i < 10; i += 1) stderr.push("x".repeat(5_000));
    stderr.push("\na\nb\nc\nd\ne\n");
    expect(String(lines[0]?.[1])).toHaveLength(1_000);
    expect(stderr.lastLines).toEqual(["a", "b", "c", "d", "e"]);
  });
});
