import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const ptyProgram = fileURLToPath(new URL("pty-run.py", import.meta.url));

/** Width of the terminal. */
const columns = 80;

interface TerminalOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A program on a terminal of 80 columns, without colors. */
export class TerminalRun {
  /** Exit code; 128 and its number if a signal ended it. */
  readonly exited: Promise<number>;
  readonly #child;
  #raw = "";

  /** Starts the program, which the caller ends. It uses free ports unless `env` sets them. */
  constructor(command: readonly string[], { cwd, env = {} }: TerminalOptions) {
    const ports = { PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0" };
    this.#child = spawn("python3", [ptyProgram, String(columns), ...command], {
      cwd,
      env: { PATH: process.env["PATH"], TERM: "xterm", NO_COLOR: "1", ...ports, ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.exited = once(this.#child, "close").then(([code]: (number | null)[]) => code ?? -1);
    this.#child.stdin.on("error", () => {});
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#raw += text;
    });
  }

  /** Everything that was written, with its control sequences. */
  get raw(): string {
    return this.#raw;
  }

  /** The screen as a person sees it now. */
  get screen(): Screen {
    return screenOf(this.#raw, columns);
  }

  type(text: string): void {
    this.#child.stdin.write(text);
  }

  /** Closes the terminal. */
  async close(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited;
  }
}

export const ctrlC = "\u0003";

interface Screen {
  /** Lines, each joined from the rows over which the terminal wrapped it. */
  readonly lines: readonly string[];
  readonly rows: number;
}

const escapeCode = "\u001b";
/** A control sequence, or one character. */
const tokens = new RegExp(`${escapeCode}\\[\\d*[A-Za-z]|[\\s\\S]`, "gu");
const cursorUp = new RegExp(`^${escapeCode}\\[\\d+A$`);

interface Row {
  text: string;
  /** Whether the text continues in the next row. */
  wraps: boolean;
}

/** Draws the output of a program on an endless screen. Knows the control sequences that `uis` writes, and throws for others. */
export function screenOf(output: string, width: number): Screen {
  const rows: Row[] = [{ text: "", wraps: false }];
  let row = 0;
  let column = 0;
  const next = (wraps: boolean): void => {
    const current = rows[row];
    if (current !== undefined) current.wraps = wraps;
    row += 1;
    column = 0;
    rows[row] ??= { text: "", wraps: false };
  };
  const put = (character: string): void => {
    if (column === width) next(true);
    const current = rows[row];
    if (current === undefined) return;
    const before = current.text.padEnd(column).slice(0, column);
    current.text = before + character + current.text.slice(column + 1);
    column += 1;
  };
  for (const [token] of output.matchAll(tokens)) {
    if (token === "\n") next(false);
    else if (token === "\r") column = 0;
    else if (token === `${escapeCode}[J`) {
      rows.splice(row + 1);
      const current = rows[row];
      if (current !== undefined) Object.assign(current, { text: current.text.slice(0, column), wraps: false });
    } else if (cursorUp.test(token)) row = Math.max(0, row - Number.parseInt(token.slice(2), 10));
    else if (token.startsWith(escapeCode)) throw new Error(`unknown control sequence ${JSON.stringify(token)}`);
    else put(token);
  }
  const lines: string[] = [];
  let joined = "";
  for (const { text, wraps } of rows) {
    joined += text;
    if (wraps) continue;
    lines.push(joined.trimEnd());
    joined = "";
  }
  if (lines.at(-1) === "") lines.pop();
  return { lines, rows: rows.length - (rows.at(-1)?.text === "" ? 1 : 0) };
}
