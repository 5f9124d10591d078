#!/usr/bin/env node
import { processEnvironment } from "./config/environment.js";
import { runCli } from "./run-cli.js";
import { startTerminal } from "./terminal.js";

/** How long connections that still close may keep a finished command alive. */
const lastWaitMs = 3_000;

const terminal = startTerminal();
process.on("exit", () => terminal.release());

// Not a failure: a reader that has read enough (`uis keys list | head`), a terminal that was closed.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && !terminal.isLost()) throw error;
});

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
