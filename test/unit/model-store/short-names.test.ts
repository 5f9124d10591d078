import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { modelIdForm } from "../../../src/contract/names.js";
import { byteText } from "../../../src/lib/display-text.js";
import { findShortName, matchingShortNames, shortNames } from "../../../src/model-store/short-names.js";
import { formatSource, parseSource } from "../../../src/model-store/sources/source.js";

describe("short names", () => {
  it("are unique model ids, and each stands for a file of the hub or a built-in source", () => {
    expect(new Set(shortNames.map(({ name }) => name)).size).toBe(shortNames.length);
    for (const { name, source } of shortNames) {
      expect(name).toMatch(modelIdForm);
      expect(name).toMatch(/^[a-z0-9.-]+:[a-z0-9.]+$/);
      expect(formatSource(parseSource(source)).startsWith(source)).toBe(true);
    }
  });

  it("are found in upper or lower case, and by words of the name or the source", () => {
    expect(findShortName("Qwen3:4B")?.source).toBe("hf:Qwen/Qwen3-4B-GGUF:Q4_K_M");
    expect(findShortName("qwen3")).toBeUndefined();
    expect(matchingShortNames("LLAMA 3b").map(({ name }) => name)).toEqual(["llama3.2:3b"]);
    expect(matchingShortNames("no such")).toEqual([]);
  });

  it("are all in the table of docs/models.md, with source, size and licence", () => {
    const page = readFileSync("docs/models.md", "utf8");
    for (const { name, source, approximateBytes, license } of shortNames) {
      const shown = source.replace(/@[0-9a-f]{40}$/, "");
      expect(page).toContain(`| \`${name}\` | \`${shown}\` | ${byteText(approximateBytes)} | ${license} |`);
    }
  });
});
