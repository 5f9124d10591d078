import { CommanderError } from "commander";
import { StateOpenError } from "../domain/state.js";
import { type CliIo, CommandError, exitCode, UsageError } from "./cli-io.js";
import { ConfigError, formatProblem } from "./config/problem.js";
import { createProgram } from "./program.js";
import { StartError } from "./start-error.js";

/** Runs one `uis` command. Resolves with the exit code; says on stderr why it is not 0. */
export async function runCli(args: readonly string[], io: CliIo): Promise<number> {
  let code: number = exitCode.done;
  const program = createProgram(io, (result) => {
    code = result;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    return explain(error, io);
  }
}

/** Tells people what went wrong, in one line per fault, and gives the exit code. */
function explain(error: unknown, io: CliIo): number {
  const say = (line: string) => io.stderr.write(`uis: ${line}\n`);
  if (error instanceof CommanderError) {
    // Commander has written its own text; help and version are no errors.
    return error.exitCode === 0 ? exitCode.done : exitCode.wrongUsage;
  }
  if (error instanceof ConfigError) {
    for (const problem of error.problems) say(formatProblem(problem, error.file));
    return exitCode.wrongUsage;
  }
  if (error instanceof StartError || error instanceof StateOpenError) {
    say(`${error.message}; ${error.fix}`);
    return exitCode.wrongUsage;
  }
  if (error instanceof UsageError) {
    say(error.message);
    return exitCode.wrongUsage;
  }
  say(error instanceof CommandError ? error.message : String(error instanceof Error ? error.stack : error));
  return exitCode.failed;
}
