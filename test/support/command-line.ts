import { Readable } from "node:stream";
import { type Command, CommanderError } from "commander";
import { createProgram } from "../../src/app/program.js";
import { findCommand } from "../../src/app/run-cli.js";

/** A word of a shell line: quoted parts and plain ones, until a space or an operator of the shell. */
const wordForm = /(?:"[^"]*"|'[^']*'|[^\s"'|<>;&])+|[|<>;&]+/g;
const operator = /^[|<>;&]+$/;

/**
 * The words after `uis` of a line that people paste into a shell: `UIS_URL=… npx uis keys list | head` is `keys list`.
 * `npm start -- …` is `serve …`. Null: the line does not begin with any of them.
 */
export function wordsOfLine(line: string): readonly string[] | null {
  const words = (line.replace(/^\s*\$ /, "").match(wordForm) ?? []).map((word) => word.replaceAll(/["']/g, ""));
  const begin = words.findIndex((word) => !/^\w+=/.test(word));
  const own = words.slice(begin);
  const end = own.findIndex((word) => operator.test(word) || word.startsWith("#"));
  const [program, ...rest] = end < 0 ? own : own.slice(0, end);
  if (program === "uis") return rest;
  if (program === "npx" && rest[0] === "uis") return rest.slice(1);
  if (program === "npm" && rest[0] === "start") return ["serve", ...rest.slice(1).filter((word) => word !== "--")];
  return null;
}

/** The parser's error for a command line, or null. The command is not run. */
export async function faultOf(words: readonly string[]): Promise<string | null> {
  const program = programThatDoesNothing();
  try {
    const { command } = findCommand(program, words);
    if (command.commands.length > 0 && !words.includes("--help")) return `${words.join(" ")} lacks a subcommand`;
    await program.parseAsync(words, { from: "user" });
    return null;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return null;
    return error instanceof Error ? error.message : String(error);
  }
}

/** Whether there is a command, or a group of commands, with these names. */
export function hasCommand(names: readonly string[]): boolean {
  let command = programThatDoesNothing();
  for (const name of names) {
    const named = command.commands.find((one) => one.name() === name);
    if (named === undefined) return false;
    command = named;
  }
  return true;
}

function programThatDoesNothing(): Command {
  const nowhere = { write() {} };
  const io = { stdin: Readable.from([]), stdout: nowhere, stderr: nowhere, env: {}, cwd: "." };
  const program = createProgram(io, () => {});
  disarm(program);
  return program;
}

function disarm(command: Command): void {
  if (command.commands.length === 0) command.action(() => {});
  for (const one of command.commands) disarm(one);
}
