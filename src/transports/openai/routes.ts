import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import { type OperationRow, operations } from "../../contract/operations.js";
import { version } from "../../contract/version.js";
import { quote, ServiceError } from "../../domain/call/service-error.js";
import { type ApiDeps, apiPaths, createApi, type Page } from "../http/api.js";
import type { ApiFamily } from "../http/call.js";
import { createHandlers, type HandlerDeps, type RestOperation } from "./handlers.js";

interface OpenAiDeps extends ApiDeps, HandlerDeps {
  readonly core: HandlerDeps["core"];
  readonly log: HandlerDeps["log"];
  /** Pages outside of `/v1` by path, for GET and HEAD. Each function gets the request's target: path and query. */
  readonly pages: ReadonlyMap<string, (target: string) => Page>;
  /** Paths of other API families below `/v1`; they are shown in the list of all routes. */
  readonly otherPaths: readonly { readonly method: string; readonly path: string }[];
}

/** The REST transport: `/v1/*`, `/version` and the pages. */
export function createOpenAiRoutes(deps: OpenAiDeps) {
  const { exchangeOf, operationRoute, pageRoute } = createApi(deps, openAiFamily);
  const handlers = createHandlers(deps);
  const root = rootPage(deps.otherPaths);
  const pages = new Map([["/v1", () => root], ["/v1/", () => root], ...deps.pages]);
  return {
    routes: [
      ...restPaths.map((path) => operationRoute(path, handlers)),
      ...[...pages].map(([path, page]) => pageRoute(path, page)),
    ],
    /** Answers a path that has no route. */
    refuseUnknown(req: IncomingMessage, res: ServerResponse): void {
      const exchange = exchangeOf(req, res);
      exchange.error(unknownUrl(req.method ?? "GET", exchange.path));
    },
  };
}

/** The operations of REST below `/v1`, from the table of operations. */
const rows = (Object.entries(operations) as [RestOperation, OperationRow][]).flatMap(([name, { rest }]) =>
  rest === undefined ? [] : [{ name, method: rest.method as string, path: rest.path }],
);

/** The page at `/v1`, for people who open the base URL in a browser (CONN-8). */
function rootPage(otherPaths: OpenAiDeps["otherPaths"]): Page {
  const routes = [...rows, ...otherPaths].map(({ method, path }) => `${method} ${path}`);
  const documentation = "docs/README.md of the package unified-inference";
  return { status: 200, body: { name: "Unified Inference", version, routes, documentation } };
}

/** All paths of the REST API. */
export const restPaths = apiPaths([...rows, { name: "get_version", method: "GET", path: "/version" }]);

/** Version of OpenAI's API whose formats are implemented (HDR-3). */
const openAiVersion = "2020-10-01";

/** The headers and the error envelope of OpenAI's API. */
export const openAiFamily = {
  transport: "openai",

  addHeaders(own, requestId, processingMs) {
    own.push(headers.requestId, requestId, headers.processingMs, `${processingMs}`, headers.version, openAiVersion);
  },

  /** `type`, `param` and `code` are always present (DEC-2). */
  errorToJson({ message, type, param, code }) {
    return { error: { message, type, param, code } };
  },
} satisfies ApiFamily;

/** Paths below `/v1` without an id, the longest first: `/chat/completions` also ends in `/completions`. */
const endpoints = rows
  .flatMap(({ path }) => (path.includes("{id}") ? [] : [path.slice("/v1".length)]))
  .sort((a, b) => b.length - a.length);

/** The error for a path that does not exist. It suggests the path that was probably meant (GEN-2). */
export function unknownUrl(method: string, path: string): ServiceError {
  return new ServiceError("unknown_url", `Unknown request URL: ${method} ${quote(path)}. ${advice(path)}`);
}

function advice(path: string): string {
  const trimmed = path.replace(/\/{1,8}$/, "");
  if (/\/messages(?:\/count_tokens)?$/.test(trimmed)) {
    return "Did you mean /v1/messages? The base URL of a client of Anthropic's API does not end in /v1.";
  }
  const meant = endpoints.find((endpoint) => trimmed.endsWith(endpoint));
  if (meant === undefined) return "GET /v1 lists all routes.";
  return `Did you mean /v1${meant}? The base URL of a client ends in /v1.`;
}
