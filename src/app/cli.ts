#!/usr/bin/env node
import { processEnvironment } from "./config/environment.js";
import { runCli } from "./run-cli.js";

/** How long connections that still close may keep a finished command alive. */
const lastWaitMs = 3_000;

// A reader that has seen enough (`uis keys list | head`) is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
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
});

// Nothing should be left to wait for; should something be, the command is over all the same.
setTimeout(() => process.exit(), lastWaitMs).unref();
