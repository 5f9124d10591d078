import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scanJson } from "../../../../src/transports/http/json-scan.js";

const scan = (text: string, depth = 64, tokens = 1_000) => scanJson(text, depth, tokens);

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function tokensOf(value: unknown): number {
  if (Array.isArray(value)) return 2 + value.reduce((sum: number, item) => sum + tokensOf(item), 0);
  if (typeof value !== "object" || value === null) return 1;
  return 2 + Object.values(value).reduce((sum: number, item) => sum + 1 + tokensOf(item), 0);
}

describe("scan of raw JSON", () => {
  it("finds the exact depth and number of tokens of any JSON (SEC-9)", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.boolean(), (value, isIndented) => {
        const text = JSON.stringify(value, null, isIndented ? 2 : 0);
        const [depth, tokens] = [depthOf(value), tokensOf(value)];
        expect(scan(text, depth, tokens)).toBe("ok");
        expect(scan(text, depth, tokens - 1)).toBe("too_many_tokens");
        if (depth > 0) expect(scan(text, depth - 1, tokens)).toBe("too_deep");
      }),
    );
  });

  it("does not count brackets and quotes inside strings (SEC-9)", () => {
    expect(scan('{"a":"[[[[{{{{\\"]]\\\\"}', 1, 4)).toBe("ok");
  });

  it("takes linear time for any bytes (SEC-9)", () => {
    const size = 4 * 1024 * 1024;
    const hostile = [
      '"'.repeat(size),
      '\\"'.repeat(size / 2),
      `"${"\\".repeat(size)}`,
      " ".repeat(size),
      "1".repeat(size),
    ];
    for (const text of [...hostile, "[".repeat(size), "1,".repeat(size / 2)]) {
      const startedAtMs = performance.now();
      scan(text, 64, 200_000);
      expect(performance.now() - startedAtMs).toBeLessThan(1_000);
    }
  });

  it("does not throw for text that is cut at any position", () => {
    const text = '{"a":["b\\"",1.5e3,true],"c":{}}';
    for (let end = 0; end <= text.length; end += 1) expect(scan(text.slice(0, end))).toBe("ok");
  });
});
