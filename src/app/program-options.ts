import { type Command, InvalidArgumentError, Option } from "commander";

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
  return onMachine(command).addHelpText(
    "after",
    `\nAsks the service at UIS_URL (default: http://127.0.0.1:8080)\nwith ${credential}, else with admin.token in its data folder${last}.`,
  );
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
