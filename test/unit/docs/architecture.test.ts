import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isReal, namesIn } from "./names-in-text.js";

describe("docs/ARCHITECTURE.md", () => {
  const page = readFileSync("docs/ARCHITECTURE.md", "utf8");

  it("names only paths, symbols and words that exist in the repository", () => {
    const names = namesIn(page);
    expect(names.length).toBeGreaterThan(50);
    expect(names.filter((name) => !isReal(name))).toEqual([]);
  });

  it("describes every folder of src", () => {
    const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => `src/${name}`).filter((folder) => !page.includes(folder))).toEqual([]);
  });
});

describe("CONTRIBUTING.md", () => {
  it("names only paths that exist", () => {
    const names = namesIn(readFileSync("CONTRIBUTING.md", "utf8")).filter((name) =>
      /^(src|docs|test|scripts|proto)\//.test(name),
    );
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !name.includes("<") && !isReal(name))).toEqual([]);
  });
});

describe("decision records", () => {
  it("name only paths and symbols that exist", () => {
    const names = readdirSync("docs/decisions").flatMap((file) =>
      namesIn(readFileSync(`docs/decisions/${file}`, "utf8")).filter((name) =>
        /^(src|docs|test|scripts|proto)\//.test(name),
      ),
    );
    expect(names.filter((name) => !isReal(name))).toEqual([]);
  });
});

describe("the check of names", () => {
  it("names only existing files, folders, symbols, exports, scripts and words of the source", () => {
    const real = [
      "src/contract/errors.ts",
      "src/domain/",
      "src/contract/errors.ts#ErrorCode",
      "src/domain/core.ts#Core.open",
      "proto/unified/inference/v1/chat.proto#ChatCompletionParams.temperature",
      "ServiceError",
      "Core.open",
      "npm run check",
      "/v1/chat/completions",
    ];
    expect(real.filter((name) => !isReal(name))).toEqual([]);
  });

  it("rejects names that do not exist", () => {
    const unreal = [
      "src/contract/mistakes.ts",
      "src/nowhere/",
      "src/contract/errors.ts#Mistake",
      "src/domain/core.ts#Core.forget",
      "proto/unified/inference/v1/chat.proto#ChatCompletionParams.warmth",
      "ServiceMistake",
      "Core.forget",
      "npm run wish",
      "/v1/wishes",
    ];
    expect(unreal.filter((name) => isReal(name))).toEqual([]);
  });

  it("finds names in prose and paths in drawings", () => {
    const page = "See `Core` and `src/lib/clock.ts`.\n```\n  box --> src/domain/core.ts | gen/unified\n```\n`after`";
    expect(namesIn(page)).toEqual(["Core", "src/lib/clock.ts", "src/domain/core.ts", "gen/unified", "after"]);
  });
});
