import { type Operation, type OperationRow, operations } from "../../contract/operations.js";
import { ServiceError } from "../../domain/call/service-error.js";

type WithRest = { [Name in Operation]: (typeof operations)[Name] extends { rest: object } ? Name : never }[Operation];

/** The operations that REST serves. */
export type RestOperation = WithRest | "get_version";

/** One path of the REST API and its operations. */
export interface RestPath {
  /** As a route: `{id}` at its end becomes `*`. */
  readonly path: string;
  /** By method; HEAD is answered as GET. */
  readonly methods: ReadonlyMap<string, RestOperation>;
  /** The operation with the lowest need: a caller who may do that is told which methods there are. */
  readonly anyOperation: RestOperation;
}

/** All paths of the REST API, from the table of operations. */
export const restPaths: readonly RestPath[] = readRestPaths();

function readRestPaths(): RestPath[] {
  const rows = Object.entries(operations) as [RestOperation, OperationRow][];
  const served = rows.flatMap(([name, { rest }]) =>
    rest === undefined ? [] : [{ name, method: rest.method as string, path: rest.path.replace("{id}", "*") }],
  );
  served.push({ name: "get_version", method: "GET", path: "/version" });
  return [...new Set(served.map(({ path }) => path))].map((path) => {
    const ofPath = served.filter((row) => row.path === path);
    const [least] = [...ofPath].sort((a, b) => Number(needsMoreThanRead(a.name)) - Number(needsMoreThanRead(b.name)));
    if (least === undefined) throw new Error(`${path} has no operation`);
    return { path, methods: new Map(ofPath.map(({ method, name }) => [method, name])), anyOperation: least.name };
  });
}

function needsMoreThanRead(operation: RestOperation): boolean {
  return operations[operation].need !== "read";
}

/** The identifier at the end of a path, with its escapes decoded exactly once (MODEL-4): an id may contain `%20`. */
export function decodeId(rawId: string): string {
  try {
    return decodeURIComponent(rawId);
  } catch (error) {
    throw new ServiceError("invalid_value", "The path has a malformed percent escape.", { cause: error });
  }
}
