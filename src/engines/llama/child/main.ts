/**
 * The process that runs one model. It speaks with the server over its IPC channel alone, ends when that closes, and
 * leaves its own signals to the server: those of a terminal or of a service manager reach both, and the server first
 * lets calls end.
 */
import type { FromChild, ToChild } from "../protocol/protocol.js";
import { Host } from "./host.js";

/** EX_SOFTWARE of sysexits: told apart from what Node itself ends with. */
const faultExitCode = 70;

function fail(error: unknown): never {
  process.stderr.write(`fatal: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(faultExitCode);
}

process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);
process.on("disconnect", () => process.exit(0));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const send = (message: FromChild): void => {
  // A channel that breaks while a message is on its way closes, which ends the process.
  process.send?.(message, undefined, undefined, () => {});
};
const host = new Host({ send, onLog: (line) => process.stderr.write(`${line}\n`), onFatal: fail });
process.on("message", (message: ToChild) => host.receive(message));
send({ type: "up" });
