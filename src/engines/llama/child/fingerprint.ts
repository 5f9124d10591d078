import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { samplingVersion } from "./sampling.js";

/** Of the file's beginning, where its header is. */
const headBytes = 1_048_576;
/** Weights of one architecture have equal headers, so the hash looks into the weights as well. */
const samples = 32;
const sampleBytes = 4_096;

/** Twelve hex digits of a hash of all that determines the answers (RESP-11). */
export async function fingerprintOf(path: string, bindingVersion: string): Promise<string> {
  const hash = createHash("sha256").update(`llama ${samplingVersion} ${bindingVersion} `);
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    hash.update(`${size} `);
    const read = async (bytes: number, position: number): Promise<void> => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, position);
      hash.update(buffer.subarray(0, bytesRead));
    };
    await read(Math.min(headBytes, size), 0);
    for (let i = 1; i <= samples; i++) {
      await read(sampleBytes, Math.max(0, Math.floor((size * i) / samples) - sampleBytes));
    }
  } finally {
    await file.close();
  }
  return hash.digest("hex").slice(0, 12);
}
