import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countTokens, Script, splitTokens } from "../../../../src/engines/scripted/choices.js";

const anyText = fc.string({ unit: fc.constantFrom("a", "é", "🙂", " ", "\n", "\u2003", "."), maxLength: 60 });

describe("tokens of the scripted engine", () => {
  it("are runs of non-space characters with the spaces before them; the last one includes spaces at the end", () => {
    expect(splitTokens("Hello there,  friend. ")).toEqual(["Hello", " there,", "  friend. "]);
    expect(splitTokens("  one")).toEqual(["  one"]);
    expect(splitTokens("")).toEqual([]);
    expect(splitTokens("   ")).toEqual(["   "]);
  });

  it("are as many as the words, and give the text when concatenated", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const tokens = splitTokens(text);
        expect(tokens.join("")).toBe(text);
        expect(countTokens(text)).toBe(tokens.length);
        const words = text.split(/\s+/).filter((word) => word !== "").length;
        expect(tokens.length).toBe(words === 0 && text !== "" ? 1 : words);
      }),
    );
  });

  it.each(["ab ", "é\u2003"])("are counted correctly in short and long texts (%j)", (word) => {
    for (const words of [1, 1_000, 100_000]) expect(countTokens(word.repeat(words))).toBe(words);
  });

  it.each([" ", "word ", "слово "])(
    "are counted in linear time, about 1 ms of a megabyte: %j (SEC-13, E-37)",
    (part) => {
      const text = part.repeat(4_000_000 / part.length);
      const costMs = (): number => {
        const { user } = process.cpuUsage();
        countTokens(text);
        return (process.cpuUsage().user - user) / 1_000;
      };
      // The minimum is used, because the first runs are slow until V8 has compiled the code.
      const costs = Array.from({ length: 6 }, costMs);
      expect(Math.min(...costs)).toBeLessThan(5 * 4);
    },
  );
});

describe("Script", () => {
  it("repeats or truncates a text to a number of tokens", () => {
    expect(new Script("a b", 5).text(0, 5)).toBe("a b a b a");
    expect(new Script("a b c", 2).text(0, 2)).toBe("a b");
    expect(new Script("Hello.", 3).text(0, 3)).toBe("Hello. Hello. Hello.");
    expect(new Script("a ", 2).text(0, 2)).toBe("a a");
    expect(new Script("", 5).length).toBe(0);
    expect(new Script("a b", 0).length).toBe(0);
  });

  it("has exactly the requested number of tokens, read one by one or in parts", () => {
    fc.assert(
      fc.property(anyText, fc.nat(50), fc.nat(50), (text, tokens, cut) => {
        const script = new Script(text, tokens);
        const at = Math.min(cut, script.length);
        const whole = script.text(0, script.length);
        expect(script.text(0, at) + script.text(at, script.length)).toBe(whole);
        expect(countTokens(whole)).toBe(text.trim() === "" ? 0 : tokens);
      }),
    );
  });
});
