import { InvalidArgumentError, Option } from "commander";

export function configOption(): Option {
  return new Option("--config <file>", "configuration file (UIS_CONFIG); default: uis.yaml, if it is there");
}

export function dataDirOption(): Option {
  return new Option("--data-dir <folder>", "folder for everything that is kept (UIS_DATA_DIR)");
}

export function jsonOption(description = "print JSON on stdout"): Option {
  return new Option("--json", description);
}

/** 0 to 65535; throws InvalidArgumentError. */
export function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError("It must be a whole number between 0 and 65535.");
}

/** Items between commas, without spaces around them; empty ones are left out. */
export function parseList(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** The end of a command's help. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}
