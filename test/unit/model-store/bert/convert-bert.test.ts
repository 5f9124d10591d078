import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BertConversion, convertBert, Vocabulary } from "../../../../src/model-store/bert/convert-bert.js";
import { runConversion } from "../../../../src/model-store/bert/run-conversion.js";
import { ModelFileError } from "../../../../src/model-store/files/model-files.js";
import { readGgufHeader } from "../../../../src/model-store/gguf/gguf-header.js";
import { framed, safetensors, tinyEncoderFiles, writeTinyEncoder } from "../../../support/model-files/tiny-encoder.js";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-bert-"));
  await writeTinyEncoder(folder);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const conversion = (more: Partial<BertConversion> = {}): BertConversion => ({
  folder,
  out: join(folder, "out.gguf"),
  type: "Q8_0",
  name: "tiny",
  license: null,
  ...more,
});

describe("convertBert", () => {
  it("writes a file that the reader recognizes as an encoder", async () => {
    await convertBert(conversion({ license: "apache-2.0" }));
    expect(await readGgufHeader(join(folder, "out.gguf"))).toMatchObject({
      architecture: "bert",
      name: "tiny",
      license: "apache-2.0",
      contextLength: 16,
      embeddingLength: 32,
      poolingType: 1,
      tokenizer: "bert",
      fileType: 7,
      tensorCount: 21,
    });
  });

  it("writes the same bytes for the same files, with the vocabulary as lines or as JSON", async () => {
    const first = await convertBert(conversion());
    const words = tinyEncoderFiles()["vocab.txt"]?.toString().trimEnd().split("\n") ?? [];
    await rm(join(folder, "vocab.txt"));
    const vocab = Object.fromEntries(words.map((word, id) => [word, id]));
    await writeFile(join(folder, "tokenizer.json"), JSON.stringify({ model: { vocab } }));
    expect(await convertBert(conversion())).toEqual(first);
  });

  it.each([
    ["config.json", "{", "malformed"],
    ["config.json", '{"model_type":"roberta"}', "unsupported"],
    ["vocab.txt", "a\nb\n", "malformed"],
    ["model.safetensors", "short", "malformed"],
    ["model.safetensors", framed("[]"), "malformed"],
    ["model.safetensors", framed('{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'), "malformed"],
    ["model.safetensors", framed('{"a":{"dtype":"F32","shape":[1e15,1e15],"data_offsets":[0,4]}}'), "malformed"],
    ["model.safetensors", framed('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'), "malformed"],
    ["model.safetensors", framed('{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'), "unsupported"],
    ["model.safetensors", Buffer.concat([Buffer.alloc(8, 0xff), Buffer.alloc(64)]), "malformed"],
    ["model.safetensors", safetensors({ other: [4] }), "unsupported"],
  ])("refuses a %s that is %s (SEC-25)", async (name, content, fault) => {
    await writeFile(join(folder, name), content);
    await expect(convertBert(conversion())).rejects.toMatchObject({ name: "ModelFileError", fault });
  });

  it("refuses a tokenizer.json that is not JSON", async () => {
    await rm(join(folder, "vocab.txt"));
    await writeFile(join(folder, "tokenizer.json"), "{");
    await expect(convertBert(conversion())).rejects.toMatchObject({ name: "ModelFileError", fault: "malformed" });
  });
});

describe("runConversion", () => {
  it("converts in a thread with the same result and does not block the event loop", async () => {
    const here = await convertBert(conversion());
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const there = await runConversion(conversion({ out: join(folder, "there.gguf") }), new AbortController().signal);
    delay.disable();
    expect(there).toEqual(here);
    expect(delay.percentile(99) / 1e6).toBeLessThan(250);
  });

  it("rejects with the unchanged error of the conversion and leaves no file", async () => {
    await writeFile(join(folder, "vocab.txt"), "a\n");
    const run = runConversion(conversion(), new AbortController().signal);
    await expect(run).rejects.toBeInstanceOf(ModelFileError);
    await expect(readGgufHeader(join(folder, "out.gguf"))).rejects.toThrow("ENOENT");
  });

  it("rejects with the abort reason if it is aborted", async () => {
    const leaving = new AbortController();
    const run = runConversion(conversion(), leaving.signal);
    leaving.abort(new Error("left"));
    await expect(run).rejects.toThrow("left");
    await expect(readGgufHeader(join(folder, "out.gguf"))).rejects.toThrow("ENOENT");
  });
});

describe("Vocabulary", () => {
  it("marks the starts of words, but not continuations and not tokens in brackets", () => {
    const vocabulary = new Vocabulary(["[PAD]", "[unused1]", "hello", "##s", "[x]", "["], 6);
    expect(vocabulary.spelled()).toEqual(["[PAD]", "[unused1]", "▁hello", "s", "[x]", "▁["]);
    expect(vocabulary.kinds()).toEqual([3, 5, 1, 1, 1, 1]);
  });
});
