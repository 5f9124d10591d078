import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { formatSource, InvalidSource, parseSource } from "../../../src/model-store/sources/source.js";

describe("parseSource", () => {
  it.each([
    ["hf:o/r/f.gguf@abc", { kind: "hub", repository: "o/r", path: "f.gguf", quantization: null, revision: "abc" }],
    ["hf:o/r/d/f.gguf", { kind: "hub", repository: "o/r", path: "d/f.gguf", quantization: null, revision: "main" }],
    ["hf:o/r@refs/pr/1", { kind: "hub", repository: "o/r", path: null, quantization: null, revision: "refs/pr/1" }],
    ["hf:o/r:Q4_K_M", { kind: "hub", repository: "o/r", path: null, quantization: "Q4_K_M", revision: "main" }],
    ["hf:o/r:q8_0@abc", { kind: "hub", repository: "o/r", path: null, quantization: "q8_0", revision: "abc" }],
    ["https://h.example/x.gguf?s=1", { kind: "https", url: "https://h.example/x.gguf?s=1" }],
    ["http://127.0.0.1:8/x", { kind: "https", url: "http://127.0.0.1:8/x" }],
    ["http://[::1]/x", { kind: "https", url: "http://[::1]/x" }],
    ["pypi:a-b.c==1.0.post1/p/f.gguf", { kind: "pypi", name: "a-b.c", version: "1.0.post1", member: "p/f.gguf" }],
    ["pypi:a==1/model/", { kind: "pypi", name: "a", version: "1", member: "model/" }],
    ["file:x/y.gguf", { kind: "file", path: resolve("x/y.gguf") }],
    ["file:///x/y%20z.gguf", { kind: "file", path: "/x/y z.gguf" }],
  ])("reads %s", (text, source) => {
    expect(parseSource(text)).toEqual(source);
  });

  it.each([
    "",
    "model.gguf",
    "ftp://h/x",
    "hf:",
    "hf:owner",
    "hf:o/r/../../x@main",
    "hf:o/r/x@../main",
    "hf:o/r:",
    "hf:o/r:Q4/x",
    "hf:o/r/x@",
    "http://h.example/x.gguf",
    "http://127.0.0.1.example.org/x",
    "https://user:word@h.example/x",
    "https://",
    "pypi:a/x.gguf",
    "pypi:a==1",
    "pypi:-r==1/x",
    "pypi:a==1/../x",
    "file:",
    "file://elsewhere/x",
    `hf:o/r/${"x".repeat(3_000)}`,
  ])("refuses the source %s", (text) => {
    expect(() => parseSource(text)).toThrow(InvalidSource);
  });

  it("reads sources that formatSource converts back to their text, without the query of an address", () => {
    for (const text of [
      "hf:o/r/f.gguf@abc",
      "hf:o/r@main",
      "hf:o/r:Q4_K_M@main",
      "pypi:a==1/p/f.gguf",
      "https://h.example/x",
      "file:/x/y",
    ]) {
      expect(formatSource(parseSource(text))).toBe(text);
    }
    expect(formatSource(parseSource("https://h.example/x?token=1#y"))).toBe("https://h.example/x");
  });
});
