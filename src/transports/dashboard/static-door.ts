import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { IdSource } from "../../domain/call/ports.js";
import { answerAndLinger } from "../../lib/lingering-answer.js";
import { pathOf } from "../../lib/request-path.js";
import { browserRules, dashboardPolicy, documentsPolicy } from "./browser-rules.js";
import { leadPage } from "./lead-page.js";
import { isKnown, variantFor, type WebFile } from "./web-file.js";
import { indexName, type WebFolder } from "./web-folder.js";

/** What this door serves, as it was read at the start. Null: it was not built. */
export interface StaticFiles {
  readonly dashboard: WebFolder | null;
  readonly documents: WebFolder | null;
  /** The description of the REST API. */
  readonly openApi: WebFile | null;
}

type RequestListener = (req: IncomingMessage, res: ServerResponse) => void;

export interface StaticDoorDeps {
  readonly files: StaticFiles;
  readonly ids: Pick<IdSource, "requestId">;
  /** Serves every path that is not of this door. */
  readonly fallback: RequestListener;
}

export interface StaticDoor {
  /** Whether a path is of this door: it then answers even when there is no such file. */
  serves(path: string): boolean;
  readonly handle: RequestListener;
}

/** One part of what is served. */
interface Site {
  /** The folder's own path, without the slash at its end. */
  readonly path: string;
  readonly name: string;
  readonly files: WebFolder | null;
  readonly policy: string;
  /** Whether names without a dot are pages, all of them shown by the index. */
  readonly hasPages: boolean;
}

type Answer = { readonly kind: "file"; readonly file: WebFile } | { readonly kind: "missing"; readonly text: string };

const pageName = /^[a-z][a-z-]{0,40}$/;
const year = 31_536_000;

/**
 * The door of files for browsers: the dashboard, the pages about the API, and its description. Nothing here asks for a
 * credential or tells anything about this service. All addresses are relative, for a proxy may serve them below any path.
 */
export function createStaticDoor({ files, ids, fallback }: StaticDoorDeps): StaticDoor {
  const { dashboard, documents, openApi } = files;
  const sites: readonly Site[] = [
    { path: "/dashboard", name: "The dashboard", files: dashboard, policy: dashboardPolicy, hasPages: true },
    { path: "/docs", name: "The page of the API", files: documents, policy: documentsPolicy, hasPages: false },
  ];
  // Requests of all other doors pass here: most are told apart by their first letters, and no text is made for them.
  const siteOf = (path: string): Site | undefined => sites.find((site) => isBelow(path, site.path));
  const openApiAt = (path: string): WebFile | null => (path === "/openapi.json" ? openApi : null);

  function answerTo(path: string): { readonly answer: Answer; readonly policy: string } | null {
    const site = siteOf(path);
    if (site !== undefined) return { answer: answerOfSite(site, path), policy: site.policy };
    const file = openApiAt(path);
    return file === null ? null : { answer: { kind: "file", file }, policy: documentsPolicy };
  }

  return {
    serves: (path) => siteOf(path) !== undefined || openApiAt(path) !== null,

    handle(req, res) {
      const found = answerTo(pathOf(req));
      if (found === null) {
        fallback(req, res);
        return;
      }
      const { answer, policy } = found;
      const marks = { ...browserRules, "content-security-policy": policy, [headers.requestId]: ids.requestId() };
      if (req.method !== "GET" && req.method !== "HEAD") {
        say(req, res, 405, `This address is read with GET, not ${req.method}.`, { ...marks, allow: "GET, HEAD" });
      } else if (answer.kind === "missing") say(req, res, 404, answer.text, marks);
      else writeFile(req, res, answer.file, marks);
    },
  };
}

/** Whether a path is the folder's own or one below it. */
function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder) && (path.length === folder.length || path[folder.length] === "/");
}

function answerOfSite({ path: own, name, files, hasPages }: Site, path: string): Answer {
  if (files === null) return { kind: "missing", text: `${name} is not built here. Build it with: npm run build` };
  // Relative addresses in a page hold only below the folder.
  if (path === own) return { kind: "file", file: leadPage(`${own.slice(1)}/`) };
  const rest = path.slice(own.length + 1);
  const isPage = rest === "" || (hasPages && pageName.test(rest));
  const file = files.get(isPage ? indexName : rest);
  return file === undefined ? { kind: "missing", text: "There is no such file." } : { kind: "file", file };
}

type Headers = Readonly<Record<string, string>>;

function writeFile(req: IncomingMessage, res: ServerResponse, file: WebFile, marks: Headers): void {
  const variant = variantFor(file, req.headers);
  const caching = {
    "cache-control": file.isImmutable ? `public, max-age=${year}, immutable` : "no-cache",
    etag: variant.etag,
    vary: "Accept-Encoding",
  };
  if (isKnown(variant, req.headers)) {
    res.writeHead(304, { ...marks, ...caching }).end();
    return;
  }
  const encoding = variant.encoding === null ? {} : { "content-encoding": variant.encoding };
  const all = { ...marks, ...caching, ...encoding, "content-type": file.contentType };
  answerAndLinger(req, res, 200, all, variant.bytes);
}

function say(req: IncomingMessage, res: ServerResponse, status: number, text: string, own: Headers): void {
  const all = { ...own, "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };
  answerAndLinger(req, res, status, all, `${text}\n`);
}
