import { type Command, InvalidArgumentError, Option } from "commander";
import type { CliIo } from "./cli-io.js";

export function configOption(): Option {
  return new Option("--config <file>", "configuration file (UIS_CONFIG); default: uis.yaml, if it exists");
}

export function dataDirOption(): Option {
  return new Option("--data-dir <folder>", "data folder (UIS_DATA_DIR)");
}

export function jsonOption(description = "print JSON on stdout"): Option {
  return new Option("--json", description);
}

export function expiresOption(): Option {
  return new Option("--expires <time>", "30d, 12h, 90s or a date; default: never");
}

/** Adds a command that has subcommands. The list of all commands shows `summary`, the help of the command `description`. */
export function addGroup(
  parent: Command,
  name: string,
  { summary, description = summary }: { readonly summary: string; readonly description?: string },
  ...exampleLines: readonly string[]
): Command {
  const group = parent.command(name).summary(summary).description(description).helpCommand(false);
  return group.addHelpText("after", examples(exampleLines));
}

/** Runs a command. Resolves with its exit code; any other result than a number means 0. */
type Handler = (io: CliIo, ...given: never[]) => unknown;

/** Completes commands with their common options, their examples and an action that loads their code. */
export class CommandSet {
  readonly #io: CliIo;
  readonly #setExitCode: (code: number) => void;

  constructor(io: CliIo, setExitCode: (code: number) => void) {
    this.#io = io;
    this.#setExitCode = setExitCode;
  }

  plain(command: Command, load: () => Promise<Handler>, ...exampleLines: readonly string[]): void {
    command.addHelpText("after", examples(exampleLines)).action(async (...given: unknown[]) => {
      const handler = await load();
      // The last argument is the Command itself.
      const code = await handler(this.#io, ...(given.slice(0, -1) as never[]));
      if (typeof code === "number") this.#setExitCode(code);
    });
  }

  /** Completes a command that works on this machine. */
  onMachine(command: Command, load: () => Promise<Handler>, ...exampleLines: readonly string[]): void {
    this.plain(
      command.addOption(configOption()).addOption(dataDirOption()).addOption(jsonOption()),
      load,
      ...exampleLines,
    );
  }

  /** Completes a command that calls the running service, or without one works on the data folder. */
  onServiceOrFolder(command: Command, load: () => Promise<Handler>, ...exampleLines: readonly string[]): void {
    // For `uis webhooks add` --url is the URL of the endpoint.
    const hasOwnUrl = command.options.some(({ long }) => long === "--url");
    const flag = hasOwnUrl ? "--service-url <url>" : "--url <url>";
    command.option(flag, "address of the running service (UIS_URL)");
    this.onMachine(command, load, ...exampleLines);
  }

  /** Completes a command that calls a running service with the administrator's credential. */
  onService(command: Command, load: () => Promise<Handler>, ...exampleLines: readonly string[]): void {
    this.withCredential(command, "UIS_ADMIN_TOKEN,\nelse admin.token in the data folder", load, ...exampleLines);
  }

  /** Completes a command that calls a running service with one of these credentials. */
  withCredential(
    command: Command,
    credentials: string,
    load: () => Promise<Handler>,
    ...exampleLines: readonly string[]
  ): void {
    const address = "--url, UIS_URL, service.json in the data folder,\nor the address in the configuration";
    command.addHelpText("after", `\nThe service is at ${address}. Credential: ${credentials}.`);
    this.onServiceOrFolder(command, load, ...exampleLines);
  }
}

/** Parses an account. Throws InvalidArgumentError for an empty one, e.g. from an unset variable. */
export function accountOption(description: string): Option {
  return new Option("--account <account>", description).argParser(notEmpty);
}

export function notEmpty(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It must not be empty.");
}

/** A parser of whole numbers from `min` to `max`. It throws InvalidArgumentError. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`It must be a whole number between ${min} and ${max}.`);
  };
}

export const parsePort = wholeNumber(0, 65_535);

/**
 * Comma-separated items, trimmed, without empty ones. Throws InvalidArgumentError if none is left: an empty variable of a
 * script must not mean the same as an absent option.
 */
export function parseList(text: string): string[] {
  const items = text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
  if (items.length === 0) throw new InvalidArgumentError("It must have at least one item.");
  return items;
}

/** The end of a command's help. */
function examples(lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}
