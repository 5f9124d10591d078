import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type Operation, type OperationRow, operations } from "../../contract/operations.js";
import { version } from "../../contract/version.js";
import type { Clock, IdSource, Logger } from "../../domain/call/ports.js";
import { quote, ServiceError, toServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import type { UsageQuestions } from "../../domain/metering/usage-questions.js";
import { BodyReader, type BodyReaderDeps } from "../http/body.js";
import { Call, type CallDeps, callerFromHeaders, headerOf, readRequestTimeout, runCall } from "../http/call.js";
import { Exchange } from "../http/exchange.js";
import { UnknownFields } from "../http/json-body.js";
import type { Route, RouteHandler } from "../http/routes.js";
import { openAiFamily, unknownUrl } from "./errors.js";
import { createHandlers, type RestWebhooks } from "./handlers.js";
import { type RestPath, restPaths } from "./rest-paths.js";
import type { KeepAlive } from "./stream-answer.js";

/** A page that needs no credential. */
export interface Page {
  readonly status: number;
  readonly body: object;
}

export interface OpenAiDoorDeps extends CallDeps, BodyReaderDeps {
  readonly core: Core;
  readonly limits: ServiceLimits;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly keepAlive: KeepAlive;
  readonly usage: Pick<UsageQuestions, "query">;
  readonly webhookEndpoints: RestWebhooks;
  /** By path, for GET and HEAD, beside `/v1`. */
  readonly pages: ReadonlyMap<string, () => Page>;
}

/** What the REST transport serves on the HTTP listener. */
export interface OpenAiDoor {
  readonly routes: readonly Route[];
  /** Answers a path that has no route. */
  readonly refuseUnknown: RouteHandler;
}

/**
 * The REST transport: `/v1/*`, `/version` and the pages. Order of checks: unknown path 404, then credential and scope by
 * `core.open`, then 405, 413, 415 and the body.
 */
export function createOpenAiDoor(deps: OpenAiDoorDeps): OpenAiDoor {
  const { clock, ids, log } = deps;
  const handlers = createHandlers({ ...deps, bodies: new BodyReader(deps), unknownFields: new UnknownFields(log) });

  function exchangeOf(req: IncomingMessage, res: ServerResponse): Exchange {
    return new Exchange(req, res, ids.requestId(), openAiFamily, clock);
  }

  function pageRoute(path: string, page: () => Page): Route {
    return {
      path,
      handle(req, res) {
        const exchange = exchangeOf(req, res);
        const { method } = req;
        if (method !== "GET" && method !== "HEAD") {
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
        const method = req.method === "HEAD" ? "GET" : req.method;
        const operation = methods.get(method ?? "");
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
    return runCall(
      deps,
      call,
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
    routes: [...restPaths.map(operationRoute), ...[...pages].map(([path, page]) => pageRoute(path, page))],
    refuseUnknown(req, res) {
      const exchange = exchangeOf(req, res);
      exchange.error(unknownUrl(req.method ?? "GET", exchange.path));
    },
  };
}

/** What `/v1` shows in a browser (CONN-8). */
function rootPage(): Page {
  const routes = (Object.values(operations) as OperationRow[]).flatMap(({ rest }) =>
    rest === undefined ? [] : [`${rest.method} ${rest.path}`],
  );
  return {
    status: 200,
    body: {
      name: "Unified Inference",
      version,
      routes,
      documentation: "docs/README.md of the package unified-inference",
    },
  };
}

/** Also sets the `Allow` header. */
function methodNotAllowed({ req, res, path }: Exchange, methods: Iterable<string>): ServiceError {
  const all = [...methods];
  const allowed = (all.includes("GET") ? [...all, "HEAD"] : all).join(", ");
  res.setHeader("allow", allowed);
  return new ServiceError(
    "method_not_allowed",
    `${quote(path)} does not allow ${req.method ?? "GET"}; it allows ${allowed}.`,
  );
}
