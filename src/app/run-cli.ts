import { type Command, CommanderError } from "commander";
import { ServiceError } from "../domain/call/service-error.js";
import { StateOpenError } from "../domain/service/state.js";
import { printableLine } from "../lib/display-text.js";
import { type CliIo, CommandError, exitCode, UsageError } from "./command-line/cli-io.js";
import { ConfigError, formatProblem, nearestName } from "./config/problem.js";
import { StartError } from "./process/lifecycle.js";
import { createProgram } from "./program.js";

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

interface FoundCommand {
  readonly command: Command;
  /** Whether `help` stands before, between or after its names: `uis help keys create`. */
  readonly isHelp: boolean;
}

/** The command that a command line begins with. Throws UsageError for a name that there is not. */
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

/** One line of what the parser found wrong in a use of the command, and where its help is. */
function usageErrorOf(error: CommanderError, command: Command): UsageError {
  const fault = error.message
    .replace(/^error: /, "")
    .replace(/\n\(Did you mean /, " (did you mean ")
    .replace(/\.$/, "");
  return new UsageError(`${printableLine(fault)}; see "${pathOf(command)} --help"`, { cause: error });
}

/** `uis keys create` */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
