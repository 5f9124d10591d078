import type { Command } from "commander";
import { createProgram } from "../../../src/app/program.js";

/** A program that parses command lines and writes into `output`, without running them. */
export function silentProgram(output: { text: string } = { text: "" }): Command {
  const write = (text: string) => {
    output.text += text;
  };
  const nothing = { stdin: (async function* () {})(), env: {}, cwd: "/" };
  return createProgram({ ...nothing, stdout: { write }, stderr: { write } }, () => {});
}

/** Every command of the program that is no group of commands, by its words after `uis`: `keys create`. */
export function allCommands(program: Command): ReadonlyMap<string, Command> {
  const found = new Map<string, Command>();
  const walk = (command: Command, words: readonly string[]): void => {
    if (command.commands.length === 0) found.set(words.join(" "), command);
    for (const inner of command.commands) walk(inner, [...words, inner.name()]);
  };
  walk(program, []);
  return found;
}

/** The program itself, and every command that only groups others. */
export function allGroups(program: Command): readonly Command[] {
  const inner = program.commands.filter(({ commands }) => commands.length > 0);
  return [program, ...inner.flatMap(allGroups)];
}
