import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { killAtExit } from "./cleanup.js";
import { cpuMs, rssBytes } from "./process-figures.js";

export interface PinnedProcess {
  /** The first line that it printed, as JSON. */
  readonly ready: Record<string, unknown>;
  readonly pid: number;
  /** Processor time used so far, in milliseconds. */
  cpuMs(): number;
  /** Resident memory in bytes. */
  rssBytes(): number;
  stop(): Promise<void>;
}

/** Starts a Node program on one core or on several, such as `0-2`; it must print one line of JSON on stdout when it can be used. */
export function startPinned(
  core: number | string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<PinnedProcess> {
  return startPinnedProgram(core, [process.execPath, ...args], env);
}

/** Starts any program on one core or on several; it must print one line of JSON on stdout when it can be used. */
export async function startPinnedProgram(
  core: number | string,
  command: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<PinnedProcess> {
  const child = spawn("taskset", ["-c", String(core), ...command], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  killAtExit(child);
  const ready: Record<string, unknown> = JSON.parse(await firstLine(child));
  return {
    ready,
    pid: child.pid ?? 0,
    cpuMs: () => cpuMs(child.pid ?? 0),
    rssBytes: () => rssBytes(child.pid ?? 0),
    stop: async () => {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error("the process has no stdout");
  const exited = once(child, "exit").then(([code]) =>
    Promise.reject(new Error(`the process ended with ${code} before it was ready`)),
  );
  const line = once(createInterface(child.stdout), "line").then(([text]) => String(text));
  return Promise.race([line, exited]);
}
