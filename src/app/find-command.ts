import type { Command, CommanderError } from "commander";
import { printableLine } from "../lib/printable.js";
import { UsageError } from "./cli-io.js";
import { nearestName } from "./config/nearest-name.js";

export interface FoundCommand {
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
export function usageErrorOf(error: CommanderError, command: Command): UsageError {
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
