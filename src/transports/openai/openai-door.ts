import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { quote } from "../../domain/call/field-checks.js";
import type { Clock, IdSource, Logger } from "../../domain/call/ports.js";
import { ServiceError, toServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import type { UsageQuestions } from "../../domain/metering/usage-questions.js";
import type { ByteBudget } from "../../lib/byte-budget.js";
import type { ResponseWatch } from "../../lib/response-watch.js";
import type { UploadWatch } from "../../lib/upload-watch.js";
import { BodyReader } from "./body-reader.js";
import { runCall } from "./call.js";
import { Exchange } from "./exchange.js";
import { createHandlers, type RestWebhooks } from "./handlers.js";
import { type Page, rootPage } from "./root-page.js";
import { allowedMethods, findRoute, type Route } from "./router.js";
import type { KeepAlive } from "./stream-answer.js";
import { UnknownFields } from "./unknown-fields.js";
import { unknownUrl } from "./unknown-url.js";

/** Where this door says what it offers. */
const rootPaths: readonly string[] = ["/v1", "/v1/"];

/** Whether the door serves a path itself, whatever pages it is given. */
export function isRestPath(path: string): boolean {
  return rootPaths.includes(path) || findRoute(path) !== null;
}

export type { Page } from "./root-page.js";

export interface OpenAiDoorDeps {
  readonly core: Core;
  readonly limits: ServiceLimits;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  /** All bodies that the HTTP listener is receiving. */
  readonly bodies: ByteBudget;
  readonly uploads: UploadWatch;
  readonly watch: ResponseWatch;
  readonly keepAlive: KeepAlive;
  readonly usage: Pick<UsageQuestions, "query">;
  readonly webhookEndpoints: RestWebhooks;
  /** By path, for GET and HEAD; `/v1` is the door's own. */
  readonly pages: ReadonlyMap<string, () => Page>;
}

/**
 * The REST door: `/v1/*`, `/version` and the pages. Order of checks: unknown path 404, then credential and scope by
 * `core.open`, then 405, 413, 415 and the body.
 */
export function createOpenAiDoor(deps: OpenAiDoorDeps): (req: IncomingMessage, res: ServerResponse) => void {
  const { clock, ids, log } = deps;
  const pages = new Map([...rootPaths.map((path) => [path, rootPage] as const), ...deps.pages]);
  const bodies = new BodyReader(deps);
  const handlers = createHandlers({ ...deps, bodies, unknownFields: new UnknownFields(log) });

  function serve(exchange: Exchange): void {
    const { path, req } = exchange;
    const method = req.method ?? "GET";
    const page = pages.get(path);
    if (page !== undefined) {
      servePage(exchange, method, page);
      return;
    }
    const route = findRoute(path);
    if (route === null) throw unknownUrl(method, path);
    serveRoute(exchange, method, route).catch((thrown: unknown) => fail(exchange, thrown));
  }

  function serveRoute(exchange: Exchange, method: string, { methods, anyOperation, rawId }: Route): Promise<void> {
    const operation = methods.get(method === "HEAD" ? "GET" : method);
    // Who may not call what is there is not told how to call it.
    return runCall(deps, exchange, operation ?? anyOperation, (call) => {
      if (operation === undefined) throw methodNotAllowed(exchange, method, methods.keys());
      return handlers[operation](call, rawId ?? "");
    });
  }

  function fail(exchange: Exchange, thrown: unknown): void {
    const error = toServiceError(thrown);
    if (error !== thrown) log.error({ err: thrown, request_id: exchange.requestId }, "a request failed unexpectedly");
    exchange.error(error);
  }

  return (req, res) => {
    const exchange = new Exchange(req, res, ids.requestId(), clock);
    try {
      serve(exchange);
    } catch (thrown) {
      fail(exchange, thrown);
    }
  };
}

function servePage(exchange: Exchange, method: string, page: () => Page): void {
  if (method !== "GET" && method !== "HEAD") throw methodNotAllowed(exchange, method, ["GET"]);
  const { status, body } = page();
  exchange.json(status, body);
}

function methodNotAllowed(exchange: Exchange, method: string, methods: Iterable<string>): ServiceError {
  const allowed = allowedMethods(methods);
  exchange.res.setHeader("allow", allowed);
  return new ServiceError(
    "method_not_allowed",
    `${quote(exchange.path)} does not allow ${method}; it allows ${allowed}.`,
  );
}
