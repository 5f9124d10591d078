import { describe, expect, it } from "vitest";
import { LruCache } from "../../../../../src/engines/llama/structure/lru-cache.js";
import { responseGrammar } from "../../../../../src/engines/llama/structure/response-grammar.js";
import { compileCheck } from "../../../../../src/engines/llama/structure/schema-check.js";

function counted(): { made: string[]; get(key: unknown): string } {
  const recent = new LruCache<string>();
  const made: string[] = [];
  const get = (key: unknown): string =>
    recent.get(key, () => {
      made.push(String(key));
      return `made of ${String(key)}`;
    });
  return { made, get };
}

describe("LruCache", () => {
  it("computes a value once for equal keys", () => {
    const { made, get } = counted();
    expect([get(["a", 1]), get(["a", 1]), get(["a", 2])]).toEqual(["made of a,1", "made of a,1", "made of a,2"]);
    expect(made).toHaveLength(2);
  });

  it("keeps the 64 most recently used entries and at most a million characters of keys (SEC-10)", () => {
    const { made, get } = counted();
    for (let key = 0; key < 64; key++) get(key);
    get(0);
    get(64);
    expect(made).toHaveLength(65);
    get(0);
    expect(made).toHaveLength(65);
    get(1);
    expect(made).toHaveLength(66);
    for (const letter of "abc") get(letter.repeat(400_000));
    get("a".repeat(400_000));
    expect(made).toHaveLength(70);
    get("long".repeat(300_000));
    get("long".repeat(300_000));
    expect(made).toHaveLength(72);
  });

  it("caches neither failures nor values whose key cannot be serialized", () => {
    const recent = new LruCache<string>();
    const fail = (): never => {
      throw new Error("no");
    };
    expect(() => recent.get("a", fail)).toThrow("no");
    expect(recent.get("a", () => "b")).toBe("b");
    let deep: unknown = [];
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(recent.get(deep, () => "c")).toBe("c");
  });
});

describe("the grammar and the check of a schema", () => {
  it("are built once for the same text and mode", () => {
    const json = JSON.stringify({ type: "object", properties: { city: { type: "string" } } });
    expect(responseGrammar({ type: "json_schema", schemaJson: json, strict: true })).toBe(
      responseGrammar({ type: "json_schema", schemaJson: json, strict: true }),
    );
    expect(responseGrammar({ type: "json_schema", schemaJson: json, strict: true })).not.toBe(
      responseGrammar({ type: "json_schema", schemaJson: json, strict: false }),
    );
    expect(compileCheck(JSON.parse(json), "strict")).toBe(compileCheck(JSON.parse(json), "strict"));
  });
});
