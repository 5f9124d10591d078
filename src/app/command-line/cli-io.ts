import type { Variables } from "../config/expand.js";
import type { Terminal } from "./terminal.js";

export interface TextOutput {
  write(text: string): unknown;
  /** Whether people look on. */
  readonly isTTY?: boolean | undefined;
}

/** What a command sees of the world around it. */
export interface CliIo {
  /** What is piped in; read by the commands that say so. */
  readonly stdin: AsyncIterable<Uint8Array>;
  /** The command's answer and nothing else. */
  readonly stdout: TextOutput;
  /** People's text, progress and logs. */
  readonly stderr: TextOutput;
  readonly env: Variables;
  readonly cwd: string;
  /** The process's own; absent where a command runs inside of another process. */
  readonly terminal?: Pick<Terminal, "isLost">;
}

/** How a command ended. */
export const exitCode = { done: 0, failed: 1, wrongUsage: 2 } as const;

/** The command line asks for something that cannot be. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The command did not reach its aim; the message says what to do. Exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** One JSON document, as `--json` prints it. */
export function printJson(io: CliIo, document: unknown): void {
  io.stdout.write(`${JSON.stringify(document)}\n`);
}

export function printLine(io: CliIo, line: string): void {
  io.stdout.write(`${line}\n`);
}

/** A list for people: its lines, or on stderr what to know and to do where there are none. */
export function printList(io: CliIo, lines: readonly string[], ifNone: string): void {
  for (const line of lines) printLine(io, line);
  if (lines.length === 0) io.stderr.write(`${ifNone}\n`);
}
