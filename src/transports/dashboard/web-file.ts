import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { extname } from "node:path";

/** How a file may be compressed, best first, with the end of the compressed file's name. */
export const encodings = [
  { encoding: "br", suffix: ".br" },
  { encoding: "gzip", suffix: ".gz" },
] as const;

type Encoding = (typeof encodings)[number]["encoding"];

/** One form of a file. */
export interface WebVariant {
  /** Null: as it is. */
  readonly encoding: Encoding | null;
  readonly bytes: Uint8Array;
  readonly etag: string;
}

/** A file as browsers get it. */
export interface WebFile {
  readonly contentType: string;
  /** Its name changes with its content: a browser never needs to ask again. */
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

/** `compressedBytes`: the compressed forms that there are. */
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

/** The best form of the file that the client can read. */
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

/** Whether the client has this very form already. */
export function isKnown({ etag }: WebVariant, headers: IncomingHttpHeaders): boolean {
  const known = (headers["if-none-match"] ?? "").split(",").map((item) => item.trim().replace(/^W\//, ""));
  return known.includes(etag) || known.includes("*");
}
