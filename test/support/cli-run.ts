import { Readable } from "node:stream";
import { runCli } from "../../src/app/run-cli.js";

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string | Uint8Array;
  /** Whether the command finds a terminal. */
  readonly isTTY?: boolean;
  /** Called with each piece of stdout when it is written. */
  readonly onStdout?: (text: string) => void;
}

/** Runs a `uis` command in this process. Commands that run until a signal, such as `serve`, need their own process. */
export async function uis(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const { isTTY = false, onStdout = () => {} } = options;
  const written = { stdout: "", stderr: "" };
  const code = await runCli(args, {
    stdin: Readable.from([Buffer.from(options.stdin ?? "")]),
    stdout: {
      isTTY,
      write: (text: string) => {
        written.stdout += text;
        onStdout(text);
      },
    },
    stderr: {
      isTTY,
      write: (text: string) => {
        written.stderr += text;
      },
    },
    env: options.env ?? {},
    cwd: options.cwd ?? process.cwd(),
  });
  return { code, ...written };
}
