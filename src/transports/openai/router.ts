import { type Operation, type OperationRow, operations } from "../../contract/operations.js";
import { ServiceError } from "../../domain/call/service-error.js";

type WithRest = { [Name in Operation]: (typeof operations)[Name] extends { rest: object } ? Name : never }[Operation];

/** What this door serves with a credential. */
export type RestOperation = WithRest | "get_version";

/** A path that exists. */
export interface Route {
  /** By method; HEAD is answered as GET. */
  readonly methods: ReadonlyMap<string, RestOperation>;
  /** The one that needs least: what a caller must be allowed to do to be told which methods there are. */
  readonly anyOperation: RestOperation;
  /** The rest of the path as it came, where the path ends in `{id}`. */
  readonly rawId: string | null;
}

interface MutableRoute extends Route {
  readonly methods: Map<string, RestOperation>;
  anyOperation: RestOperation;
}

const idPlaceholder = "{id}";
const exact = new Map<string, MutableRoute>();
const prefixed = new Map<string, MutableRoute>();

for (const [name, row] of Object.entries(operations) as [RestOperation, OperationRow][]) {
  if (row.rest !== undefined) addRoute(row.rest.method, row.rest.path, name);
}
addRoute("GET", "/version", "get_version");

function addRoute(method: string, path: string, operation: RestOperation): void {
  const isPrefix = path.endsWith(idPlaceholder);
  const table = isPrefix ? prefixed : exact;
  const key = isPrefix ? path.slice(0, -idPlaceholder.length) : path;
  const route = table.get(key) ?? { methods: new Map<string, RestOperation>(), anyOperation: operation, rawId: null };
  route.methods.set(method, operation);
  if (operations[operation].need === "read") route.anyOperation = operation;
  table.set(key, route);
}

/** The route of a path without query; null when there is none. Paths are compared as they came, byte for byte. */
export function findRoute(path: string): Route | null {
  const route = exact.get(path);
  if (route !== undefined) return route;
  for (const [prefix, ofPrefix] of prefixed) {
    if (path.startsWith(prefix)) return { ...ofPrefix, rawId: path.slice(prefix.length) };
  }
  return null;
}

/** Methods for the `Allow` header. */
export function allowedMethods(methods: Iterable<string>): string {
  const all = [...methods];
  return (all.includes("GET") ? [...all, "HEAD"] : all).join(", ");
}

/**
 * The identifier at the end of a path, with its escapes decoded exactly once (MODEL-4): an id may contain `%20` itself.
 */
export function decodeId(rawId: string): string {
  try {
    return decodeURIComponent(rawId);
  } catch (error) {
    throw new ServiceError("invalid_value", "The path has a malformed percent escape.", { cause: error });
  }
}
