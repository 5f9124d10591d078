#!/usr/bin/env node
import { startTerminal } from "./command-line/terminal.js";

/** The oldest Node that this program runs on, as `engines` of package.json says. */
const oldestNode = [20, 19] as const;

/** How long connections that still close may keep a finished command alive. */
const lastWaitMs = 3_000;

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
  process.stderr.write(`uis: Node ${process.versions.node} is too old: use Node ${oldestNode.join(".")} or newer\n`);
  process.exit(2);
}

const terminal = startTerminal();
process.on("exit", () => terminal.release());

// Not a failure: a reader that has read enough (`uis keys list | head`), a terminal that was closed.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && !terminal.isLost()) throw error;
});

// Loaded after the check: an older Node could not even load them.
const { processEnvironment } = await import("./config/environment.js");
const { runCli } = await import("./run-cli.js");
process.exitCode = await runCli(process.argv.slice(2), {
  // A getter: standard input is opened by the commands that read it only.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: processEnvironment(),
  cwd: process.cwd(),
  terminal,
});

// Nothing should be left to wait for; should something be, the command is over all the same.
setTimeout(() => process.exit(), lastWaitMs).unref();
