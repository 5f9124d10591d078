import { type Command, InvalidArgumentError, Option } from "commander";

/** Sets the exit code of the process; a command that does not call it exits with 0. */
export type SetExitCode = (code: number) => void;

export function configOption(): Option {
  return new Option("--config <file>", "configuration file (UIS_CONFIG); default: uis.yaml, if it is there");
}

export function dataDirOption(): Option {
  return new Option("--data-dir <folder>", "folder for everything that is kept (UIS_DATA_DIR)");
}

export function jsonOption(description = "print JSON on stdout"): Option {
  return new Option("--json", description);
}

/** `30d`, `12h`, `90s` or a date. */
export function expiresOption(): Option {
  return new Option("--expires <time>", "30d, 12h, 90s or a date; default: never");
}

/** A command that holds others. `summary` stands in the list of all commands, `description` above its own. */
export function addGroup(parent: Command, name: string, summary: string, description = summary): Command {
  return parent.command(name).summary(summary).description(description).helpCommand(false);
}

/** Gives a command of this machine the options that all of them have. */
export function onMachine(command: Command): Command {
  return command.addOption(configOption()).addOption(dataDirOption()).addOption(jsonOption());
}

/**
 * Gives a command that asks a running service the options that all of them have, and says how it finds the service:
 * `lastCredential` is what it takes where there is neither the first one nor the token in the data folder.
 */
export function ofService(command: Command, credential = "UIS_ADMIN_TOKEN", lastCredential?: string): Command {
  const last = lastCredential === undefined ? "" : `,\nelse with ${lastCredential}`;
  return onServiceOrFolder(command).addHelpText(
    "after",
    `\nFinds the service by --url, UIS_URL, service.json in the data folder,\nor the configuration. Signs in with ${credential},\nelse with admin.token in the data folder${last}.`,
  );
}

/** Gives a command that asks the running service, or works on the data folder without one, the options of both. */
export function onServiceOrFolder(command: Command): Command {
  // `uis webhooks add` has a --url of its own: that of the endpoint.
  if (!command.options.some(({ long }) => long === "--url")) {
    command.option("--url <url>", "address of the running service (UIS_URL)");
  }
  return onMachine(command);
}

/** The account of a key, a threshold or a query. Throws InvalidArgumentError for an empty one, as of an unset variable. */
export function accountOption(description: string): Option {
  return new Option("--account <account>", description).argParser((text: string) => {
    if (text !== "") return text;
    throw new InvalidArgumentError("It must not be empty.");
  });
}

/** 0 to 65535; throws InvalidArgumentError. */
export function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError("It must be a whole number between 0 and 65535.");
}

/**
 * Items between commas, without spaces around them; empty ones are left out. Throws InvalidArgumentError when none is
 * left: an empty variable of a script must not mean the same as leaving the option out.
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
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}
