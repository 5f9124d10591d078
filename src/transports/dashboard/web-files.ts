import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { extname, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

/** By path below the folder, with `/` between its parts. */
export type WebFolder = ReadonlyMap<string, WebFile>;

/** A hundred times the size of the build: protects the memory from a wrong folder. */
export const folderLimits = { files: 1_000, bytes: 64 * 1024 * 1024 } as const;

/** The page of a folder's own path. */
export const indexName = "index.html";

/** File names with a digest, from Vite. */
const hashedName = /^assets\/[^/]+-[\w-]{8}\.\w+$/;

/**
 * Reads a built folder with all its compressed forms. Null: it does not exist or has no index page. Rejects when it is
 * larger than `folderLimits`.
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

/** Reads one file and compresses it. Null: it does not exist. */
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

/** Content encodings, best first, with the suffix of the compressed file. */
export const encodings = [
  { encoding: "br", suffix: ".br" },
  { encoding: "gzip", suffix: ".gz" },
] as const;

type Encoding = (typeof encodings)[number]["encoding"];

/** One encoding of a file. */
export interface WebVariant {
  /** Null: not compressed. */
  readonly encoding: Encoding | null;
  readonly bytes: Uint8Array;
  readonly etag: string;
}

/** A file that is served to browsers. */
export interface WebFile {
  readonly contentType: string;
  /** Its name changes with its content, so browsers may cache it without revalidation. */
  readonly isImmutable: boolean;
  readonly plain: WebVariant;
  /** Best first. */
  readonly compressed: readonly WebVariant[];
}

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".txt": "text/plain; charset=utf-8",
  // LICENSE, NOTICE
  "": "text/plain; charset=utf-8",
};

/** `compressedBytes`: by encoding. */
export function toWebFile(
  name: string,
  bytes: Uint8Array,
  compressedBytes: ReadonlyMap<Encoding, Uint8Array>,
  isImmutable: boolean,
): WebFile {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 32);
  return {
    contentType: contentTypes[extname(name)] ?? "application/octet-stream",
    isImmutable,
    plain: { encoding: null, bytes, etag: `"${hash}"` },
    compressed: [...compressedBytes].map(([encoding, own]) => ({
      encoding,
      bytes: own,
      etag: `"${hash}-${encoding}"`,
    })),
  };
}

/** The best encoding that the client accepts. */
export function variantFor({ plain, compressed }: WebFile, headers: IncomingHttpHeaders): WebVariant {
  const accepted = acceptedEncodings(String(headers["accept-encoding"] ?? ""));
  return compressed.find(({ encoding }) => encoding !== null && accepted.has(encoding)) ?? plain;
}

function acceptedEncodings(header: string): ReadonlySet<string> {
  const accepted = new Set<string>();
  for (const item of header.split(",")) {
    const [name = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    if (!parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) accepted.add(name);
  }
  return accepted;
}

/** Whether the client has this variant cached (If-None-Match). */
export function isKnown({ etag }: WebVariant, headers: IncomingHttpHeaders): boolean {
  const known = (headers["if-none-match"] ?? "").split(",").map((item) => item.trim().replace(/^W\//, ""));
  return known.includes(etag) || known.includes("*");
}
