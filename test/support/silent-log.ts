import type { Logger } from "../../src/domain/call/ports.js";

/** For what logs in tests that do not look at the log. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };
