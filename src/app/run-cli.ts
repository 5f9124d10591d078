import { type Command, CommanderError } from "commander";
import { ServiceError } from "../domain/call/service-error.js";
import { StateOpenError } from "../domain/service/state.js";
import { printableLine } from "../lib/display-text.js";
import { type CliIo, CommandError, exitCode, UsageError } from "./command-line/cli-io.js";
import { ConfigError, formatProblem, nearestName } from "./config/problem.js";
import { StartError } from "./process/lifecycle.js";
import { createProgram } from "./program.js";

/** Runs one `uis` command. Resolves with the exit code; explains on stderr why it is not 0. */
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

/** Parses the arguments and runs the command; the exit code if the parser did all the work, such as help. */
async function parse(program: Command, args: readonly string[], command: Command): Promise<number | null> {
  try {
    await program.parseAsync(args, { from: "user" });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return exitCode.done;
    // A group without a command: its help was written to stderr.
    if (error.code === "commander.help") return exitCode.wrongUsage;
    throw usageErrorOf(error, command);
  }
}

/** Writes one line per problem to stderr and returns the exit code. */
function explain(error: unknown, io: CliIo): number {
  const write = (line: string) => io.stderr.write(`uis: ${line}\n`);
  if (error instanceof ConfigError) for (const problem of error.problems) write(formatProblem(problem, error.file));
  else if (error instanceof StartError || error instanceof StateOpenError) write(`${error.message}; ${error.fix}`);
  else if (error instanceof UsageError) write(error.message);
  else {
    const isExpected = error instanceof CommandError || error instanceof ServiceError;
    write(isExpected ? error.message : String(error instanceof Error ? error.stack : error));
    return exitCode.failed;
  }
  return exitCode.wrongUsage;
}

interface FoundCommand {
  readonly command: Command;
  /** Whether the word `help` is before, between or after the command's names, as in `uis help keys create`. */
  readonly isHelp: boolean;
}

/** The command at the start of a command line. Throws UsageError for an unknown name. */
export function findCommand(program: Command, words: readonly string[]): FoundCommand {
  let command = program;
  let isHelp = false;
  for (const word of words) {
    if (word.startsWith("-") || command.commands.length === 0) break;
    if (word === "help") {
      isHelp = true;
      continue;
    }
    const named = command.commands.find((one) => one.name() === word);
    if (named === undefined) throw unknownCommand(command, word);
    command = named;
  }
  return { command, isHelp };
}

function unknownCommand(group: Command, word: string): UsageError {
  const names = group.commands.map((one) => one.name());
  const nearest = nearestName(word, names);
  const elsewhere = group.commands.find(({ commands }) => commands.some((one) => one.name() === word));
  const meant = nearest ?? (elsewhere === undefined ? null : `${elsewhere.name()} ${word}`);
  const hint = meant === null ? "" : ` (did you mean ${meant}?)`;
  return new UsageError(`unknown command '${printableLine(word)}'${hint}; see "${pathOf(group)} --help"`);
}

/** One line with the parser's error and the command for help. */
function usageErrorOf(error: CommanderError, command: Command): UsageError {
  const message = error.message
    .replace(/^error: /, "")
    .replace(/\n\(Did you mean /, " (did you mean ")
    .replace(/\.$/, "");
  return new UsageError(`${printableLine(message)}; see "${pathOf(command)} --help"`, { cause: error });
}

/** Full name of a command, such as `uis keys create`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
