import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import { type Operation, type OperationRow, operations } from "../../contract/operations.js";
import { version } from "../../contract/version.js";
import type { IdSource } from "../../domain/call/ports.js";
import { quote, ServiceError, toServiceError } from "../../domain/call/service-error.js";
import {
  type ApiFamily,
  Call,
  type CallDeps,
  callerFromHeaders,
  Exchange,
  headerOf,
  readRequestTimeout,
} from "../http/call.js";
import type { Route } from "../http/routes.js";
import { createHandlers, type HandlerDeps, type RestOperation } from "./handlers.js";

/** A page that needs no credential. */
interface Page {
  readonly status: number;
  readonly body: object;
}

interface OpenAiDeps extends CallDeps, HandlerDeps {
  readonly core: HandlerDeps["core"];
  readonly log: CallDeps["log"];
  readonly ids: IdSource;
  /** By path, for GET and HEAD, beside `/v1`. */
  readonly pages: ReadonlyMap<string, () => Page>;
}

/**
 * The REST transport: `/v1/*`, `/version` and the pages. Order of checks: unknown path 404, then credential and scope by
 * `core.open`, then 405, 413, 415 and the body.
 */
export function createOpenAiRoutes(deps: OpenAiDeps) {
  const { clock, ids, log } = deps;
  const handlers = createHandlers(deps);

  function exchangeOf(req: IncomingMessage, res: ServerResponse): Exchange {
    return new Exchange(req, res, ids.requestId(), openAiFamily, clock);
  }

  function pageRoute([path, page]: readonly [string, () => Page]): Route {
    return {
      path,
      handle(req, res) {
        const exchange = exchangeOf(req, res);
        if (req.method !== "GET" && req.method !== "HEAD") {
          exchange.error(methodNotAllowed(exchange, ["GET"]));
          return;
        }
        const { status, body } = page();
        exchange.json(status, body);
      },
    };
  }

  function operationRoute({ path, methods, anyOperation }: RestPath): Route {
    return {
      path,
      handle(req, res, rawId) {
        const exchange = exchangeOf(req, res);
        const operation = methods.get((req.method === "HEAD" ? "GET" : req.method) ?? "");
        // Authorize before answering 405.
        serveCall(exchange, operation ?? anyOperation, (call) => {
          if (operation === undefined) throw methodNotAllowed(exchange, methods.keys());
          return handlers[operation](call, exchange, rawId);
        }).catch((thrown: unknown) => {
          log.error({ err: thrown, request_id: exchange.requestId }, "a request failed unexpectedly");
          exchange.error(toServiceError(thrown));
        });
      },
    };
  }

  function serveCall(exchange: Exchange, operation: Operation, serve: (call: Call) => Promise<void>): Promise<void> {
    const { req, res, requestId } = exchange;
    const timeout = readRequestTimeout(headerOf(req, headers.requestTimeout));
    const timeoutMs = timeout instanceof ServiceError ? Number.POSITIVE_INFINITY : timeout;
    const call = new Call(deps, req, res, requestId, timeoutMs);
    const caller = callerFromHeaders((name) => headerOf(req, name), {
      deadlineAtMs: call.deadlineAtMs,
      abort: call.signal,
      transport: "openai",
      address: req.socket.remoteAddress ?? "",
      browser: undefined,
      requestId,
    });
    return call.run(
      operation,
      caller,
      () => {
        if (timeout instanceof ServiceError) throw timeout;
        return serve(call);
      },
      (error) => exchange.error(error),
    );
  }

  const pages = new Map([["/v1", rootPage], ["/v1/", rootPage], ...deps.pages]);
  return {
    routes: [...restPaths.map(operationRoute), ...[...pages].map(pageRoute)],
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

/** What `/v1` shows in a browser (CONN-8). */
function rootPage(): Page {
  const routes = rows.map(({ method, path }) => `${method} ${path}`);
  const documentation = "docs/README.md of the package unified-inference";
  return { status: 200, body: { name: "Unified Inference", version, routes, documentation } };
}

/** Also sets the `Allow` header. */
function methodNotAllowed({ req, res, path }: Exchange, methods: Iterable<string>): ServiceError {
  const all = [...methods];
  const allowed = (all.includes("GET") ? [...all, "HEAD"] : all).join(", ");
  res.setHeader("allow", allowed);
  const message = `${quote(path)} does not allow ${req.method ?? "GET"}; it allows ${allowed}.`;
  return new ServiceError("method_not_allowed", message);
}

/** One path of the REST API and its operations. */
export interface RestPath {
  /** As a route: `{id}` at its end becomes `*`. */
  readonly path: string;
  /** By method; HEAD is answered as GET. */
  readonly methods: ReadonlyMap<string, RestOperation>;
  /** The operation with the lowest scope, which authorizes a caller to learn the allowed methods. */
  readonly anyOperation: RestOperation;
}

/** All paths of the REST API. */
export const restPaths: readonly RestPath[] = readRestPaths();

function readRestPaths(): RestPath[] {
  const served = [...rows, { name: "get_version" as const, method: "GET", path: "/version" }];
  return [...new Set(served.map(({ path }) => path))].map((path) => {
    const ofPath = served.filter((row) => row.path === path);
    const least = ofPath.find(({ name }) => operations[name].need === "read") ?? ofPath[0];
    if (least === undefined) throw new Error(`${path} has no operation`);
    const methods = new Map(ofPath.map(({ method, name }) => [method, name]));
    return { path: path.replace("{id}", "*"), methods, anyOperation: least.name };
  });
}

/** Version of OpenAI's API whose formats are implemented (HDR-3). */
const openAiVersion = "2020-10-01";

/** The headers and the error envelope of OpenAI's API. */
export const openAiFamily: ApiFamily = {
  addHeaders(own, requestId, processingMs) {
    own.push(headers.requestId, requestId, headers.processingMs, `${processingMs}`, headers.version, openAiVersion);
  },

  /** `type`, `param` and `code` are always present (DEC-2). */
  errorToJson({ message, type, param, code }) {
    return { error: { message, type, param, code } };
  },
};

/** Paths below `/v1` without an id at their end, the longest first: `/chat/completions` also ends in `/completions`. */
const endpoints = rows
  .flatMap(({ path }) => (path.endsWith("}") ? [] : [path.slice("/v1".length)]))
  .sort((a, b) => b.length - a.length);

/** The error for a path that does not exist: it names the path that was probably meant (GEN-2). */
export function unknownUrl(method: string, path: string): ServiceError {
  return new ServiceError("unknown_url", `Unknown request URL: ${method} ${quote(path)}. ${advice(path)}`);
}

function advice(path: string): string {
  const trimmed = path.replace(/\/{1,8}$/, "");
  if (trimmed.endsWith("/responses")) {
    return "The Responses API is not offered; use /v1/chat/completions (in the AI SDK: openai.chat(id)).";
  }
  const meant = endpoints.find((endpoint) => trimmed.endsWith(endpoint));
  if (meant === undefined) return "GET /v1 lists all routes.";
  return `Did you mean /v1${meant}? The base URL of a client ends in /v1.`;
}
