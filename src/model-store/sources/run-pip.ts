import { spawn } from "node:child_process";
import { SourceUnavailable } from "../model-errors.js";

export interface PipRun {
  readonly command: string;
  readonly args: readonly string[];
  /** The environment of the child: pip finds the operator's index, mirror, proxy and certificates in it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** How pip ended: its status and the end of what it said on stderr. */
export interface PipOutcome {
  readonly status: number | null;
  readonly said: string;
}

const keptCharacters = 4_000;

/** Runs pip to its end. On abort and after the time limit it is killed. Rejects with SourceUnavailable or the reason. */
export function runPip({ command, args, environment, timeoutMs, signal }: PipRun): Promise<PipOutcome> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: { ...environment }, stdio: ["ignore", "ignore", "pipe"] });
    const kill = () => void child.kill("SIGKILL");
    const timer = setTimeout(() => {
      reject(new SourceUnavailable(`pip has not ended after ${timeoutMs / 1_000} s: check its index and its proxy`));
      kill();
    }, timeoutMs);
    signal.addEventListener("abort", kill, { once: true });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-keptCharacters);
    });
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", kill);
      if (signal.aborted) reject(signal.reason);
      else settle();
    };
    child.once("error", (cause) =>
      end(() => reject(new SourceUnavailable(`${command} cannot be started: ${cause.message}`, { cause }))),
    );
    child.once("close", (status) => end(() => resolve({ status, said })));
  });
}
