import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { IdSource } from "../../domain/call/ports.js";
import { answerAndLinger } from "../http/answer.js";
import type { Route } from "../http/routes.js";
import { indexName, isKnown, toWebFile, variantFor, type WebFile, type WebFolder } from "./web-files.js";

/** The files that are served, as they were read at the start. Null: not built. */
export interface StaticFiles {
  readonly dashboard: WebFolder | null;
  readonly documents: WebFolder | null;
  /** The description of the REST API. */
  readonly openApi: WebFile | null;
}

/** A folder of files and the path that it is served at. */
interface Site {
  /** Without the slash at its end. */
  readonly path: string;
  readonly name: string;
  readonly files: WebFolder | null;
  readonly policy: string;
  /** Whether names without a dot are pages, all of them shown by the index. */
  readonly hasPages: boolean;
}

type Answer = { readonly kind: "file"; readonly file: WebFile } | { readonly kind: "missing"; readonly text: string };

const pageName = /^[a-z][a-z-]{0,40}$/;
const yearSeconds = 31_536_000;

/**
 * The routes of files for browsers: the dashboard, the pages about the API, and its description. None of them needs a
 * credential or shows data of this service. All addresses are relative, because a proxy may serve them below any path.
 */
export function createStaticRoutes(files: StaticFiles, ids: Pick<IdSource, "requestId">): readonly Route[] {
  const { dashboard, documents, openApi } = files;
  const sites: readonly Site[] = [
    { path: "/dashboard", name: "The dashboard", files: dashboard, policy: dashboardPolicy, hasPages: true },
    { path: "/docs", name: "The page of the API", files: documents, policy: documentsPolicy, hasPages: false },
  ];

  function route(path: string, policy: string, answerTo: (rest: string) => Answer): Route {
    return {
      path,
      handle(req, res, rest) {
        const marks = { ...browserRules, "content-security-policy": policy, [headers.requestId]: ids.requestId() };
        if (req.method !== "GET" && req.method !== "HEAD") {
          writeText(req, res, 405, `This address is read with GET, not ${req.method}.`, {
            ...marks,
            allow: "GET, HEAD",
          });
          return;
        }
        const answer = answerTo(rest);
        if (answer.kind === "missing") writeText(req, res, 404, answer.text, marks);
        else writeFile(req, res, answer.file, marks);
      },
    };
  }

  return [
    ...sites.flatMap((site) => [
      // Relative addresses in a page work only below the folder.
      route(site.path, site.policy, () => ifBuilt(site, () => redirectPage(`${site.path.slice(1)}/`))),
      route(`${site.path}/*`, site.policy, (rest) => ifBuilt(site, (built) => fileAt(site, built, rest))),
    ]),
    ...(openApi === null ? [] : [route("/openapi.json", documentsPolicy, () => ({ kind: "file", file: openApi }))]),
  ];
}

function ifBuilt({ name, files }: Site, find: (files: WebFolder) => WebFile | undefined): Answer {
  if (files === null) return { kind: "missing", text: `${name} is not built here. Build it with: npm run build` };
  const file = find(files);
  return file === undefined ? { kind: "missing", text: "There is no such file." } : { kind: "file", file };
}

function fileAt({ hasPages }: Site, files: WebFolder, rest: string): WebFile | undefined {
  const isPage = rest === "" || (hasPages && pageName.test(rest));
  return files.get(isPage ? indexName : rest);
}

/**
 * A page that sends the browser to `to`, a relative address. Not an HTTP redirect: programs follow those and lose the
 * body of their request.
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
  const variant = variantFor(file, req.headers);
  const caching = {
    "cache-control": file.isImmutable ? `public, max-age=${yearSeconds}, immutable` : "no-cache",
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

function writeText(req: IncomingMessage, res: ServerResponse, status: number, text: string, marks: Headers): void {
  const all = { ...marks, "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };
  answerAndLinger(req, res, status, all, `${text}\n`);
}

/** Nothing from other origins, no inline scripts (SEC-21). */
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

/** For the dashboard: with trusted types no text can become markup or a script. */
const dashboardPolicy = [...sameOriginOnly, "require-trusted-types-for 'script'", "trusted-types 'none'"].join("; ");

/** For Swagger UI, which turns sanitized texts into markup, so that trusted types would stop it. */
const documentsPolicy = sameOriginOnly.join("; ");

/** Sent with every answer beside the policy. The listener adds `x-content-type-options` to all answers. */
const browserRules: Headers = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
};
