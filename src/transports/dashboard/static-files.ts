import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { extname, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { headers } from "../../contract/headers.js";
import type { IdSource } from "../../domain/call/ports.js";
import { answerAndLinger } from "../http/answer.js";
import type { Route, RouteHandler } from "../http/routes.js";

/** The served files, which are read once at the start. Null: they were not built. */
export interface StaticFiles {
  readonly dashboard: WebFolder | null;
  readonly documents: WebFolder | null;
  /** The description of the REST API. */
  readonly openApi: WebFile | null;
}

/** Path of a page of the dashboard: a name, or `settings/` and a name. */
const pageName = /^(?<group>settings\/)?[a-z][a-z-]{0,40}$/;
const yearSeconds = 31_536_000;

/**
 * The routes of files for browsers: the dashboard, the pages about the API, and its description. None of them needs a
 * credential or shows data of this service. All addresses are relative, because a proxy may serve them below any path.
 * `unknown` answers paths without a file, with the headers that are set before, and an id of its own.
 */
export function createStaticRoutes(
  files: StaticFiles,
  ids: Pick<IdSource, "requestId">,
  unknown: RouteHandler,
): readonly Route[] {
  const { dashboard, documents, openApi } = files;

  /** `find` returns a file, null for a path without one, or the text of a 404 where nothing was built. */
  function route(path: string, policy: string, find: (rest: string) => WebFile | string | null): Route {
    return {
      path,
      handle(req, res, rest) {
        const marks = { ...browserRules, "content-security-policy": policy, [headers.requestId]: ids.requestId() };
        if (req.method !== "GET" && req.method !== "HEAD") {
          const text = `This address accepts GET and HEAD, not ${req.method}.`;
          writeText(req, res, 405, text, { ...marks, allow: "GET, HEAD" });
          return;
        }
        const found = find(rest);
        if (found === null) {
          const { [headers.requestId]: _, ...own } = marks;
          for (const [name, value] of Object.entries(own)) res.setHeader(name, value);
          unknown(req, res, rest);
        } else if (typeof found === "string") writeText(req, res, 404, found, marks);
        else writeFile(req, res, found, marks);
      },
    };
  }

  /** A folder of files. `hasPages`: names without a dot are pages, shown by the index of their folder. */
  function site(path: string, name: string, folder: WebFolder | null, policy: string, hasPages: boolean): Route[] {
    const notBuilt = `${name} is not built here. Build it with: npm run build`;
    // The relative addresses in a page need a path that ends with a slash.
    const redirect = redirectPage(`${path.slice(1)}/`);
    const find = (rest: string): WebFile | string | null => {
      const page = hasPages ? pageName.exec(rest) : null;
      const isPage = rest === "" || page !== null;
      const name = isPage ? `${page?.groups?.["group"] ?? ""}${indexName}` : rest;
      return folder === null ? notBuilt : (folder.get(name) ?? null);
    };
    return [route(path, policy, () => (folder === null ? notBuilt : redirect)), route(`${path}/*`, policy, find)];
  }

  return [
    ...site("/dashboard", "The dashboard", dashboard, dashboardPolicy, true),
    ...site("/docs", "The page of the API", documents, documentsPolicy, false),
    ...(openApi === null ? [] : [route("/openapi.json", documentsPolicy, () => openApi)]),
  ];
}

/**
 * Extends a route by a redirect to the dashboard for browsers, recognised by `Accept: text/html`. No SDK sends this header,
 * so an HTTP redirect is safe here. All other requests are answered by the route itself.
 */
export function withBrowserRedirect({ path, handle }: Route, ids: Pick<IdSource, "requestId">): Route {
  const location = "dashboard/";
  const { contentType, plain } = redirectPage(location);
  return {
    path,
    handle(req, res, rest) {
      const wantsPage = /\btext\/html\b/i.test(String(req.headers.accept ?? ""));
      if (!wantsPage || (req.method !== "GET" && req.method !== "HEAD")) {
        handle(req, res, rest);
        return;
      }
      const marks = {
        ...browserRules,
        "content-security-policy": dashboardPolicy,
        [headers.requestId]: ids.requestId(),
      };
      const caching = { "cache-control": "no-store", vary: "Accept" };
      answerAndLinger(req, res, 302, { ...marks, ...caching, location, "content-type": contentType }, plain.bytes);
    },
  };
}

/**
 * A page that makes the browser load `to`, a relative address. It is not an HTTP redirect, because programs that follow a
 * redirect lose the body of their request.
 */
function redirectPage(to: string): WebFile {
  const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="refresh" content="0; url=${to}" />
    <title>Unified Inference</title>
  </head>
  <body>
    <a href="${to}">Continue</a>
  </body>
</html>
`;
  return toWebFile("index.html", Buffer.from(html), new Map(), false);
}

type Headers = Readonly<Record<string, string>>;

function writeFile(req: IncomingMessage, res: ServerResponse, file: WebFile, marks: Headers): void {
  const accepted = acceptedEncodings(String(req.headers["accept-encoding"] ?? ""));
  const variant = file.compressed.find(({ encoding }) => encoding !== null && accepted.has(encoding)) ?? file.plain;
  const caching = {
    "cache-control": file.isImmutable ? `public, max-age=${yearSeconds}, immutable` : "no-cache",
    etag: variant.etag,
    vary: "Accept-Encoding",
  };
  if (isCached(variant, req.headers)) {
    res.writeHead(304, { ...marks, ...caching }).end();
    return;
  }
  const encoding = variant.encoding === null ? {} : { "content-encoding": variant.encoding };
  const all = { ...marks, ...caching, ...encoding, "content-type": file.contentType };
  answerAndLinger(req, res, 200, all, variant.bytes);
}

function writeText(req: IncomingMessage, res: ServerResponse, status: number, text: string, marks: Headers): void {
  const all = { ...marks, "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };
  answerAndLinger(req, res, status, all, `${text}\n`);
}

/** Content security policy that allows nothing from other origins and no inline scripts (SEC-21). */
const sameOriginOnly = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
];

/** Policy of the dashboard: with trusted types no text can become markup or a script. */
const dashboardPolicy = [...sameOriginOnly, "require-trusted-types-for 'script'", "trusted-types 'none'"].join("; ");

/** Policy of Swagger UI. Without trusted types, which would break it: it turns sanitized texts into markup. */
const documentsPolicy = sameOriginOnly.join("; ");

/** Headers that are sent with every file in addition to the policy. The listener adds `x-content-type-options`. */
const browserRules: Headers = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
};

/** The files of a folder by their path below it, with `/` as separator. */
type WebFolder = ReadonlyMap<string, WebFile>;

/** A hundred times the size of the build. Bounds the memory if a wrong folder is configured. */
export const folderLimits = { files: 1_000, bytes: 64 * 1024 * 1024 } as const;

/** The file that is served for the path of a folder. */
const indexName = "index.html";

/** File names with a digest of the content, as Vite creates them. */
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
  if (files.length > folderLimits.files) throw new Error(`${folder} contains more than ${folderLimits.files} files`);
  const contents = new Map<string, Uint8Array>();
  let size = 0;
  for (const { parentPath, name } of files) {
    const path = join(parentPath, name);
    const bytes = await readFile(path);
    size += bytes.length;
    if (size > folderLimits.bytes) throw new Error(`${folder} contains more than ${folderLimits.bytes} bytes`);
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
const encodings = [
  { encoding: "br", suffix: ".br" },
  { encoding: "gzip", suffix: ".gz" },
] as const;

type Encoding = (typeof encodings)[number]["encoding"];

/** One encoding of a file. */
interface WebVariant {
  /** Null: not compressed. */
  readonly encoding: Encoding | null;
  readonly bytes: Uint8Array;
  readonly etag: string;
}

/** A file that is served to browsers. */
interface WebFile {
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

/** `compressedBytes`: the compressed forms by encoding. */
function toWebFile(
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

function acceptedEncodings(header: string): ReadonlySet<string> {
  const accepted = new Set<string>();
  for (const item of header.split(",")) {
    const [name = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    if (!parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) accepted.add(name);
  }
  return accepted;
}

/** Whether the client has this variant cached (If-None-Match). */
function isCached({ etag }: WebVariant, headers: IncomingHttpHeaders): boolean {
  const known = (headers["if-none-match"] ?? "").split(",").map((item) => item.trim().replace(/^W\//, ""));
  return known.includes(etag) || known.includes("*");
}
