import { stat } from "node:fs/promises";
import { join } from "node:path";
import { encoderFiles } from "./bert/encoder-files.js";
import { runConversion } from "./bert/run-conversion.js";
import { type FileSum, type Pin, requirePin, sumFile } from "./file-sum.js";
import { asNoSpace, type FreeBytes, requireSpace } from "./free-space.js";
import { type GgufHeader, readGgufHeader } from "./gguf/gguf-header.js";
import { ModelFileError } from "./model-errors.js";
import type { FetchedModel } from "./sources/fetched-model.js";

/** A GGUF file whose sum and header were checked. */
export interface FinishedModel {
  readonly path: string;
  readonly sum: FileSum;
  readonly header: GgufHeader;
}

export interface Finishing {
  /** Where a conversion writes. */
  readonly folder: string;
  /** Names of the model that an encoder's file is given. */
  readonly name: string;
  readonly license: string | null;
  /** What the GGUF must be. */
  readonly expected: Pin | undefined;
  readonly freeBytes: FreeBytes;
  readonly onConverting: () => void;
  readonly signal: AbortSignal;
}

/** Converts an encoder, then checks sum and header. Rejects with ModelFileError or the signal's reason. */
export async function finishModel(fetched: FetchedModel, finishing: Finishing): Promise<FinishedModel> {
  const { name, expected, signal } = finishing;
  const path = fetched.kind === "gguf" ? fetched.path : await convert(fetched.folder, finishing);
  const sum = await sumFile(path, signal);
  requirePin(name, sum, expected);
  return { path, sum, header: await readGgufHeader(path) };
}

async function convert(encoder: string, { folder, name, license, freeBytes, onConverting, signal }: Finishing) {
  const weights = await stat(join(encoder, encoderFiles.weights)).catch((cause: unknown) => {
    throw new ModelFileError("missing", `${encoder} holds no ${encoderFiles.weights}: not an encoder's folder`, {
      cause,
    });
  });
  // Q8_0 takes a bit more than a quarter of F32; half of it is ample.
  const needed = Math.ceil(weights.size / 2);
  await requireSpace(folder, needed, freeBytes);
  onConverting();
  const out = join(folder, "converted.gguf");
  try {
    await runConversion({ folder: encoder, out, type: "Q8_0", name, license }, signal);
  } catch (error) {
    throw asNoSpace(error, folder, needed);
  }
  return out;
}
