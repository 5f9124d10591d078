import { describe, expect, it } from "vitest";
import {
  defaultChatModels,
  defaultEmbeddingModel,
  findDefaultSource,
} from "../../../src/model-store/default-models.js";
import { formatSource, parseSource } from "../../../src/model-store/sources/source.js";

const all = [...defaultChatModels, defaultEmbeddingModel];

describe("the default models", () => {
  it("have an expected checksum and size for every source (SEC-25)", () => {
    const pins = all.flatMap(({ file, sources }) => [
      file,
      ...sources.flatMap(({ pins: { file: whole, encoder = {} } }) => [
        ...(whole ? [whole] : []),
        ...Object.values(encoder),
      ]),
    ]);
    for (const { sha256, bytes } of pins) {
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      expect(bytes).toBeGreaterThan(0);
    }
    for (const { sources } of all) {
      for (const { pins: known } of sources) expect(known.file ?? known.encoder).toBeDefined();
    }
  });

  it("have unique ids, and are found by the text of their sources", () => {
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    for (const model of all) {
      for (const { source, pins } of model.sources) {
        expect(findDefaultSource(formatSource(parseSource(source)))).toEqual({ model, pins });
      }
    }
  });

  it("are downloaded from a commit, not from a branch", () => {
    for (const { sources } of all) {
      for (const { source } of sources) {
        const parsed = parseSource(source);
        if (parsed.kind === "hub") expect(parsed.revision).toMatch(/^[0-9a-f]{40}$/);
      }
    }
  });
});
