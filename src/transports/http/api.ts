import type { IncomingMessage, ServerResponse } from "node:http";
import { create } from "@bufbuild/protobuf";
import { ListModelsRequestSchema } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type Operation, operations, secretOperations } from "../../contract/operations.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import { quote, ServiceError, toServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import { constraintOf } from "../../domain/inference/constraints.js";
import { type BodyDeps, checkAnnouncedSize, readBody } from "./body.js";
import {
  type ApiFamily,
  Call,
  type CallDeps,
  callerFromHeaders,
  Exchange,
  headerOf,
  readRequestTimeout,
} from "./call.js";
import { checkMediaType, type JsonObject, parseJsonBody } from "./json-object.js";
import { largeBodyBytesMin, parseLargeJsonBody } from "./large-json.js";
import type { Route } from "./routes.js";

export interface ApiDeps extends CallDeps {
  readonly ids: IdSource;
}

/** Serves one operation: reads the message, calls the core, writes the answer. `rawId`: the undecoded `{id}` of the path. */
export type OperationHandler = (call: Call, exchange: Exchange, rawId: string) => Promise<void>;

/** One path of an API and its operations. */
export interface ApiPath<O extends Operation> {
  /** Path as a route: `{id}` becomes `*`. */
  readonly path: string;
  /** Operations by method; HEAD is answered as GET. */
  readonly methods: ReadonlyMap<string, O>;
  /** The operation with the lowest scope: a caller with this scope may get 405 with the allowed methods. */
  readonly anyOperation: O;
}

/** A page that needs no credential. */
export interface Page {
  readonly status: number;
  readonly body: object;
}

/**
 * Functions that the routes of every API family share. Order of checks: unknown path 404, then credential and scope by
 * `core.open`, then 405, 413, 415 and the body.
 */
export function createApi(deps: ApiDeps, family: ApiFamily) {
  const { clock, ids, log } = deps;

  function exchangeOf(req: IncomingMessage, res: ServerResponse): Exchange {
    return new Exchange(req, res, ids.requestId(), family, clock);
  }

  function serveCall(exchange: Exchange, operation: Operation, serve: (call: Call) => Promise<void>): Promise<void> {
    const { req, res, requestId } = exchange;
    const timeout = readRequestTimeout(headerOf(req, headers.requestTimeout));
    const timeoutMs = timeout instanceof ServiceError ? Number.POSITIVE_INFINITY : timeout;
    const call = new Call(deps, req, res, requestId, timeoutMs);
    const facts = {
      deadlineAtMs: call.deadlineAtMs,
      abort: call.signal,
      transport: family.transport,
      address: req.socket.remoteAddress ?? "",
      browser: undefined,
      requestId,
    };
    const caller = callerFromHeaders((name) => headerOf(req, name), facts, family.keyHeader);
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

  return {
    exchangeOf,

    /** `page` gets the target of the request: path and query. */
    pageRoute(path: string, page: (target: string) => Page): Route {
      return {
        path,
        handle(req, res) {
          const exchange = exchangeOf(req, res);
          if (req.method !== "GET" && req.method !== "HEAD") {
            exchange.error(methodNotAllowed(exchange, ["GET"]));
            return;
          }
          const { status, body } = page(req.url ?? path);
          exchange.json(status, body);
        },
      };
    },

    /** `header`: the route serves only requests with this header. */
    operationRoute<O extends Operation>(
      { path, methods, anyOperation }: ApiPath<O>,
      handlers: Readonly<Record<O, OperationHandler>>,
      header: string | null = null,
    ): Route {
      return {
        path,
        header,
        refuse: (req, res, error) => exchangeOf(req, res).error(error),
        handle(req, res, rawId) {
          const exchange = exchangeOf(req, res);
          const operation = methods.get((req.method === "HEAD" ? "GET" : req.method) ?? "");
          // Authorize before answering 405.
          serveCall(exchange, operation ?? anyOperation, (call) => {
            if (operation === undefined) throw methodNotAllowed(exchange, methods.keys());
            if (secretOperations.has(operation)) res.setHeader("cache-control", "no-store");
            return handlers[operation](call, exchange, rawId);
          }).catch((thrown: unknown) => {
            log.error({ err: thrown, request_id: exchange.requestId }, "a request failed unexpectedly");
            exchange.error(toServiceError(thrown));
          });
        },
      };
    },
  };
}

/** Groups operations by path. */
export function apiPaths<O extends Operation>(
  rows: readonly { readonly name: O; readonly method: string; readonly path: string }[],
): ApiPath<O>[] {
  return [...new Set(rows.map(({ path }) => path))].map((path) => {
    const ofPath = rows.filter((row) => row.path === path);
    const least = ofPath.find(({ name }) => operations[name].need === "read") ?? ofPath[0];
    if (least === undefined) throw new Error(`${path} has no operation`);
    const methods = new Map(ofPath.map(({ method, name }) => [method, name]));
    return { path: path.replace("{id}", "*"), methods, anyOperation: least.name };
  });
}

/** Dependencies of the reader of JSON bodies. */
interface JsonReaderDeps extends BodyDeps {
  readonly limits: ServiceLimits;
  readonly log: Logger;
}

/**
 * The reader of JSON bodies of an API family. It checks the headers (413 and 415) before the body, and logs fields of the
 * body outside `known`. Returns `read`'s result, synchronously when the body has arrived. Throws or rejects with ServiceError.
 */
export function createJsonReader(deps: JsonReaderDeps) {
  const { limits, log } = deps;
  const noteUnknownFields = createFieldLog(log);
  return <T>(
    call: Call,
    { path }: Exchange,
    read: (body: JsonObject) => T,
    known: ReadonlySet<string>,
  ): T | Promise<T> => {
    checkAnnouncedSize(deps, call, limits.bodyBytesMax);
    checkMediaType(call.req);
    const use = (body: JsonObject): T => {
      noteUnknownFields(body, known, path);
      return read(body);
    };
    return readBody(deps, call, limits.bodyBytesMax, (bytes): T | Promise<T> =>
      bytes.length < largeBodyBytesMin
        ? use(parseJsonBody(bytes, limits))
        : parseLargeJsonBody(bytes, limits).then(use),
    );
  };
}

const namesMax = 1_000;
const nameCharsMax = 64;
const printableName = /^[A-Za-z0-9_.-]+$/;

/**
 * Logs each unknown field name once, so that an operator sees which fields clients expect. Unknown fields are ignored (DEC-9),
 * except constraints on the output, which are applied or refused. Names with unusual characters are not written to the log.
 */
function createFieldLog(log: Logger) {
  const seen = new Set<string>();
  return (body: JsonObject, known: ReadonlySet<string>, path: string): void => {
    for (const name of body.names) {
      if (known.has(name) || constraintOf(name) !== undefined || seen.size >= namesMax) continue;
      const short = name.slice(0, nameCharsMax);
      const field = printableName.test(short) ? short : "(unprintable)";
      if (seen.has(field)) continue;
      seen.add(field);
      log.info({ field, path }, "unknown request field ignored");
    }
  };
}

/** The caller's models, from all pages of the list (MODEL-1). */
export async function allModels(core: Pick<Core, "listModels">, call: Call): Promise<Model[]> {
  const models: Model[] = [];
  let pageToken = "";
  do {
    const page = await core.listModels(create(ListModelsRequestSchema, { pageToken }), call.ctx);
    models.push(...page.models);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return models;
}

/** The identifier at the end of a path, with its escapes decoded exactly once (MODEL-4): an id may contain `%20`. */
export function decodeId(rawId: string): string {
  try {
    return decodeURIComponent(rawId);
  } catch (error) {
    throw new ServiceError("invalid_value", "The path has a malformed percent escape.", { cause: error });
  }
}

/** The error for 405. Also sets the `Allow` header. */
function methodNotAllowed({ req, res, path }: Exchange, methods: Iterable<string>): ServiceError {
  const all = [...methods];
  const allowed = (all.includes("GET") ? [...all, "HEAD"] : all).join(", ");
  res.setHeader("allow", allowed);
  const message = `${quote(path)} does not allow ${req.method ?? "GET"}; it allows ${allowed}.`;
  return new ServiceError("method_not_allowed", message);
}
