#!/usr/bin/env node
import { setFlagsFromString } from "node:v8";
import { startTerminal } from "./command-line/terminal.js";
import { lowerV8Threads } from "./process/v8-threads.js";

/** The oldest supported Node, as in `engines` of package.json. */
const oldestNode = [20, 19] as const;

/** How long closing connections may keep a finished command alive. */
const lastWaitMs = 3_000;

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
  process.stderr.write(`uis: Node ${process.versions.node} is too old: use Node ${oldestNode.join(".")} or newer\n`);
  process.exit(2);
}

// V8 allocates objects in the old generation where earlier objects of the same code often lived long, such as those of
// requests that wait for an engine. There even dead objects keep all objects to which they refer, until a full garbage
// collection: a gateway is a third slower.
setFlagsFromString("--no-allocation-site-pretenuring");

lowerV8Threads();

const terminal = startTerminal();
process.on("exit", () => terminal.release());

// Not errors: a closed pipe (`uis keys list | head`) and a closed terminal.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && !terminal.isLost()) throw error;
});

// Text for a closed terminal or pipe is lost; the failed write must not end a service.
process.stderr.on("error", () => {});

// Imported after the check, because an older Node could not load them.
const { processEnvironment } = await import("./config/environment.js");
const { runCli } = await import("./run-cli.js");
process.exitCode = await runCli(process.argv.slice(2), {
  // A getter, so that only commands that read standard input open it.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: processEnvironment(),
  cwd: process.cwd(),
  terminal,
});

// Normally nothing keeps the process alive here. If something does, this timer ends the process.
setTimeout(() => process.exit(), lastWaitMs).unref();
