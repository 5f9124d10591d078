import { type Command, CommanderError } from "commander";
import { ServiceError } from "../domain/call/service-error.js";
import { StateOpenError } from "../domain/service/state.js";
import { type CliIo, CommandError, exitCode, UsageError } from "./cli-io.js";
import { ConfigError, formatProblem } from "./config/problem.js";
import { findCommand, usageErrorOf } from "./find-command.js";
import { createProgram } from "./program.js";
import { StartError } from "./start-error.js";

/** Runs one `uis` command. Resolves with the exit code; says on stderr why it is not 0. */
export async function runCli(args: readonly string[], io: CliIo): Promise<number> {
  let code: number = exitCode.done;
  const program = createProgram(io, (result) => {
    code = result;
  });
  try {
    const { command, isHelp } = findCommand(program, args);
    if (isHelp) command.outputHelp();
    else code = (await parse(program, args, command)) ?? code;
    return code;
  } catch (error) {
    return explain(error, io);
  }
}

/** Runs what the arguments say; the exit code when that was the parser's own work, such as help. */
async function parse(program: Command, args: readonly string[], command: Command): Promise<number | null> {
  try {
    await program.parseAsync(args, { from: "user" });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return exitCode.done;
    // A group without a command: its help stands on stderr.
    if (error.code === "commander.help") return exitCode.wrongUsage;
    throw usageErrorOf(error, command);
  }
}

/** Tells people what went wrong, in one line per fault, and gives the exit code. */
function explain(error: unknown, io: CliIo): number {
  const say = (line: string) => io.stderr.write(`uis: ${line}\n`);
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
  const isExpected = error instanceof CommandError || error instanceof ServiceError;
  say(isExpected ? error.message : String(error instanceof Error ? error.stack : error));
  return exitCode.failed;
}
