import { CallEntry } from "../../src/domain/call/call.js";
import type { Logger } from "../../src/domain/call/ports.js";

/** A log for tests that do not read it. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** The fields of a log line, also of the request line, which serializes itself. */
export function fieldsOf(fields: object): Record<string, unknown> {
  return fields instanceof CallEntry ? JSON.parse(`{${fields.toMembers().slice(1)}}`) : { ...fields };
}
