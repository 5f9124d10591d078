import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { encodings, toWebFile, type WebFile } from "./web-file.js";

/** By path below the folder, with `/` between its parts. */
export type WebFolder = ReadonlyMap<string, WebFile>;

/** What is built is a hundredth of this; a folder that is none of ours should not fill the memory. */
export const folderLimits = { files: 1_000, bytes: 64 * 1024 * 1024 } as const;

/** The page that a folder shows by itself. */
export const indexName = "index.html";

/** Files of which Vite puts a digest into the name. */
const hashedName = /^assets\/[^/]+-[\w-]{8}\.\w+$/;

/**
 * Reads a built folder with all its compressed forms. Null: there is none, or no page in it. Rejects when it is larger than
 * `folderLimits`.
 */
export async function readWebFolder(folder: string): Promise<WebFolder | null> {
  const contents = await readContents(folder);
  if (!contents.has(indexName)) return null;
  const files = new Map<string, WebFile>();
  for (const [name, bytes] of contents) {
    if (encodings.some(({ suffix }) => name.endsWith(suffix))) continue;
    const compressed = encodings.flatMap(({ encoding, suffix }) => {
      const own = contents.get(name + suffix);
      return own === undefined ? [] : [[encoding, own] as const];
    });
    files.set(name, toWebFile(name, bytes, new Map(compressed), hashedName.test(name)));
  }
  return files;
}

/** One file that no build has compressed. Null: there is no such file. */
export async function readWebFile(path: string): Promise<WebFile | null> {
  const bytes = await unlessMissing(readFile(path));
  if (bytes === null) return null;
  return toWebFile(path, bytes, new Map([["gzip", await promisify(gzip)(bytes)]]), false);
}

async function readContents(folder: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const entries = (await unlessMissing(readdir(folder, { recursive: true, withFileTypes: true }))) ?? [];
  const files = entries.filter((entry) => entry.isFile());
  if (files.length > folderLimits.files) throw new Error(`${folder} holds more than ${folderLimits.files} files`);
  const contents = new Map<string, Uint8Array>();
  let size = 0;
  for (const { parentPath, name } of files) {
    const path = join(parentPath, name);
    const bytes = await readFile(path);
    size += bytes.length;
    if (size > folderLimits.bytes) throw new Error(`${folder} holds more than ${folderLimits.bytes} bytes`);
    contents.set(relative(folder, path).split(sep).join("/"), bytes);
  }
  return contents;
}

async function unlessMissing<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw cause;
  }
}
