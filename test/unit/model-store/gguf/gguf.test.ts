import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ModelFileError } from "../../../../src/model-store/files/model-files.js";
import { readGgufHeader } from "../../../../src/model-store/gguf/gguf-header.js";
import { GgufWriter, tensorBytes } from "../../../../src/model-store/gguf/gguf-writer.js";
import { writeTinyGguf } from "../../../support/model-files/tiny-gguf.js";
import { seededPick } from "../../../support/random-numbers.js";
import { rounds } from "../../../support/tier.js";

let folder = "";
let sound = Buffer.alloc(0);
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-gguf-"));
  await writeTinyGguf(join(folder, "sound.gguf"));
  sound = await readFile(join(folder, "sound.gguf"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function readBytes(bytes: Uint8Array) {
  const path = join(folder, "tried.gguf");
  await writeFile(path, bytes);
  return readGgufHeader(path);
}

/** A copy of the valid file with one change. */
function changed(change: (bytes: Buffer) => void): Buffer {
  const copy = Buffer.from(sound);
  change(copy);
  return copy;
}

/** Offset of the text in the valid file. */
const placeOf = (text: string): number => sound.indexOf(text);

describe("GgufWriter", () => {
  it("writes a file that the reader accepts, and returns its checksum and length", async () => {
    const path = join(folder, "written.gguf");
    const written = await writeTinyGguf(path, "näme");
    const bytes = await readFile(path);
    expect(written).toEqual({ bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") });
    expect(await readGgufHeader(path)).toEqual({
      architecture: "llama",
      name: "näme",
      license: "apache-2.0",
      contextLength: 128,
      embeddingLength: 32,
      poolingType: null,
      tokenizer: null,
      chatTemplate: "{{ messages[0].content }}",
      fileType: null,
      contextBytesPerToken: null,
      tensorCount: 2,
      parameterCount: 96,
    });
  });

  it("begins every tensor at a multiple of 32 bytes", async () => {
    const path = join(folder, "aligned.gguf");
    const writer = new GgufWriter().setString("general.architecture", "x").setBool("x.flag", true);
    writer.tensor("a", [3], "F32", () => Float32Array.of(1, 2, 3)).tensor("b", [2], "F16", () => Float32Array.of(1, 2));
    const { bytes } = await writer.write(path);
    expect(bytes % 32).toBe(0);
    const file = await readFile(path);
    expect(file.readFloatLE(bytes - 64)).toBe(1);
    expect(file.readUInt16LE(bytes - 32)).toBe(0x3c00);
    await expect(readGgufHeader(path)).resolves.toMatchObject({ tensorCount: 2, parameterCount: 5 });
  });

  it("refuses rows that do not fill blocks, and a wrong number of values", async () => {
    const make = () => new Float32Array(33);
    expect(() => new GgufWriter().tensor("a", [33], "Q8_0", make)).toThrow("do not fill blocks");
    const writer = new GgufWriter().tensor("a", [34], "F32", make);
    await expect(writer.write(join(folder, "wrong.gguf"))).rejects.toThrow("33 values were made");
  });

  it("keeps Q8_0 values within half a step of their block's scale", () => {
    const values = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i) * (i < 32 ? 1 : 100));
    const view = new DataView(tensorBytes(values, "Q8_0").buffer);
    for (let i = 0; i < 64; i += 1) {
      const largest = i < 32 ? 1 : 100;
      const quant = view.getInt8(Math.floor(i / 32) * 34 + 2 + (i % 32));
      expect(Math.abs((quant * largest) / 127 - (values[i] ?? 0))).toBeLessThan(largest / 127);
    }
  });
});

describe("readGgufHeader", () => {
  const cases: readonly [string, () => Buffer][] = [
    ["another magic", () => changed((bytes) => bytes.write("GGML", 0))],
    ["an old version", () => changed((bytes) => bytes.writeUInt32LE(1, 4))],
    ["a version of the other byte order", () => changed((bytes) => bytes.writeUInt32BE(3, 4))],
    ["no tensors", () => changed((bytes) => bytes.writeBigUInt64LE(0n, 8))],
    ["too many tensors", () => changed((bytes) => bytes.writeBigUInt64LE(65_537n, 8))],
    ["more tensors than it has", () => changed((bytes) => bytes.writeBigUInt64LE(65_536n, 8))],
    ["a count beyond all numbers", () => changed((bytes) => bytes.writeBigUInt64LE(2n ** 64n - 1n, 16))],
    ["a key of 4 GiB", () => changed((bytes) => bytes.writeUInt32LE(1, 28))],
    ["a text beyond the file", () => changed((bytes) => bytes.writeUInt32LE(9_999, placeOf("llama") - 8))],
    ["a text over 16 MiB", () => changed((bytes) => bytes.writeUInt32LE(0x7fffffff, placeOf("llama") - 8))],
    ["a key twice", () => changed((bytes) => bytes.write("general.namename", placeOf("general.license") - 1))],
    ["an unknown type of value", () => changed((bytes) => bytes.writeUInt32LE(13, placeOf("llama") - 12))],
    [
      "a dimension of nothing",
      () => changed((bytes) => bytes.writeBigUInt64LE(0n, placeOf("output_norm.weight") + 22)),
    ],
    [
      "a product that overflows",
      () =>
        changed((bytes) => {
          bytes.writeBigUInt64LE(2n ** 33n, placeOf("token_embd.weight") + 21);
          bytes.writeBigUInt64LE(2n ** 33n, placeOf("token_embd.weight") + 29);
        }),
    ],
    ["five dimensions", () => changed((bytes) => bytes.writeUInt32LE(5, placeOf("token_embd.weight") + 17))],
    ["an unknown tensor type", () => changed((bytes) => bytes.writeUInt32LE(5, placeOf("output_norm.weight") + 30))],
    [
      "a tensor beyond the end",
      () => changed((bytes) => bytes.writeBigUInt64LE(1n << 40n, placeOf("output_norm.weight") + 34)),
    ],
    [
      "a tensor off its alignment",
      () => changed((bytes) => bytes.writeBigUInt64LE(4n, placeOf("output_norm.weight") + 34)),
    ],
    ["a missing end", () => sound.subarray(0, -32)],
    ["nothing in it", () => Buffer.alloc(0)],
  ];

  it.each(cases)("refuses a file with %s (SEC-25)", async (_, make) => {
    await expect(readBytes(make())).rejects.toMatchObject({ name: "ModelFileError", fault: "malformed" });
  });

  it("returns or throws ModelFileError within a second if any bytes are changed or cut off (SEC-25)", {
    timeout: 300_000,
  }, async () => {
    const pick = seededPick(25);
    let worstMs = 0;
    for (let round = 0; round < rounds(10_000); round += 1) {
      const bytes = Buffer.from(sound.subarray(0, pick(4) === 0 ? pick(sound.length) : sound.length));
      for (let flips = pick(4); flips > 0 && bytes.length > 8; flips -= 1) {
        const at = pick(bytes.length - 8);
        if (pick(2) === 0) bytes[at] = pick(256);
        else bytes.writeBigUInt64LE([0n, 1n, 2n ** 31n, 2n ** 63n, 2n ** 64n - 1n][pick(5)] ?? 0n, at);
      }
      const startedMs = performance.now();
      await readBytes(bytes).catch((error: unknown) => {
        if (!(error instanceof ModelFileError)) throw error;
      });
      worstMs = Math.max(worstMs, performance.now() - startedMs);
    }
    expect(worstMs).toBeLessThan(1_000);
  });

  it("refuses an endless header within a second (SEC-25)", async () => {
    const path = join(folder, "endless.gguf");
    const head = Buffer.alloc(24);
    head.write("GGUF");
    head.writeUInt32LE(3, 4);
    head.writeBigUInt64LE(1n, 8);
    head.writeBigUInt64LE(65_536n, 16);
    const key = Buffer.concat([Buffer.alloc(8), Buffer.from([8, 0, 0, 0]), Buffer.alloc(8)]);
    key.writeUInt32LE(0, 0);
    await writeFile(path, Buffer.concat([head, key]));
    await truncate(path, 64 * 2 ** 30);
    const startedMs = performance.now();
    await expect(readGgufHeader(path)).rejects.toThrow(ModelFileError);
    const array = Buffer.concat([Buffer.alloc(8), Buffer.from([9, 0, 0, 0, 8, 0, 0, 0]), Buffer.alloc(8)]);
    array.writeUInt32LE(2 * 1024 * 1024, 16);
    await writeFile(path, Buffer.concat([head, array]));
    await truncate(path, 64 * 2 ** 30);
    await expect(readGgufHeader(path)).rejects.toThrow(ModelFileError);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });

  it("skips a large vocabulary without blocking the event loop", async () => {
    const path = join(folder, "large.gguf");
    const tokens = Array.from({ length: 300_000 }, (_, i) => `token ${i}`);
    await new GgufWriter()
      .setString("general.architecture", "llama")
      .setStringArray("tokenizer.ggml.tokens", tokens)
      .tensor("a", [1], "F32", () => new Float32Array(1))
      .write(path);
    const delay = monitorEventLoopDelay({ resolution: 2 });
    delay.enable();
    await expect(readGgufHeader(path)).resolves.toMatchObject({ tensorCount: 1 });
    delay.disable();
    expect(delay.max / 1e6).toBeLessThan(250);
  });
});
