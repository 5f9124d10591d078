import { Readable } from "node:stream";
import { runCli } from "../../src/app/run-cli.js";

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a `uis` command in this process. `serve` does not end by itself: use `spawnServe` for it. */
export async function uis(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string>>; cwd?: string; stdin?: string | Uint8Array } = {},
): Promise<CliResult> {
  const written = { stdout: "", stderr: "" };
  const collect = (name: keyof typeof written) => ({
    write: (text: string) => {
      written[name] += text;
    },
  });
  const code = await runCli(args, {
    stdin: Readable.from([Buffer.from(options.stdin ?? "")]),
    stdout: collect("stdout"),
    stderr: collect("stderr"),
    env: options.env ?? {},
    cwd: options.cwd ?? process.cwd(),
  });
  return { code, ...written };
}
