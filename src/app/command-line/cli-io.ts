import type { Variables } from "../config/expand.js";
import type { Terminal } from "./terminal.js";

export interface TextOutput {
  write(text: string): unknown;
  /** Whether this is a terminal. */
  readonly isTTY?: boolean | undefined;
  /** Width of the terminal. */
  readonly columns?: number | undefined;
}

/** Environment of a command. */
export interface CliIo {
  /** Standard input. Only commands whose help mentions it read it. */
  readonly stdin: AsyncIterable<Uint8Array> & { readonly isTTY?: boolean | undefined };
  /** The command's answer and nothing else. */
  readonly stdout: TextOutput;
  /** Messages for people, progress and logs. */
  readonly stderr: TextOutput;
  readonly env: Variables;
  readonly cwd: string;
  /** The terminal of this process; absent if the command runs inside another program. */
  readonly terminal?: Pick<Terminal, "isLost">;
}

/** Whether colors may be written: on a terminal, unless NO_COLOR is set (no-color.org). */
export function hasColors(output: TextOutput, { NO_COLOR: noColor, TERM: term }: Variables): boolean {
  return output.isTTY === true && !noColor && term !== "dumb";
}

/** Whether the log is written for people: `log.format`, on a terminal unless it is set to another form. */
export function isPrettyLog(format: "auto" | "json" | "pretty", output: TextOutput): boolean {
  return format === "pretty" || (format === "auto" && output.isTTY === true);
}

/** Exit codes of all commands. */
export const exitCode = { done: 0, failed: 1, wrongUsage: 2 } as const;

/** Wrong use of a command. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The command failed; the message states the remedy. Exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

interface OutputOptions {
  readonly json?: boolean;
}

/** Prints one JSON document on one line with `--json`, else the lines. */
export function print(io: CliIo, { json }: OutputOptions, document: unknown, ...lines: readonly string[]): void {
  for (const line of json ? [JSON.stringify(document)] : lines) io.stdout.write(`${line}\n`);
}

/** Prints a JSON array with `--json`, otherwise the lines. For an empty list it writes the text `ifNone` to stderr. */
export function printList(
  io: CliIo,
  options: OutputOptions,
  documents: readonly unknown[],
  lines: readonly string[],
  ifNone: string,
): void {
  print(io, options, documents, ...lines);
  if (!options.json && lines.length === 0) io.stderr.write(`${ifNone}\n`);
}
