import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { DebugState } from "./start-service.js";

export interface ServiceProcess {
  readonly pid: number;
  readonly port: number;
  readonly key: string;
  debugState(): Promise<DebugState>;
  /** Resident memory now. */
  rssBytes(): number;
  /** Ends it and removes its files. */
  kill(): Promise<void>;
}

const pageBytes = 4096;

/**
 * The service in a process of its own, from its sources, for what only a process shows: memory, signals, exit codes.
 * `nodeArgs` come before the program, e.g. an `--import` that plants a fault.
 */
export async function startServiceProcess(config: object, nodeArgs: readonly string[] = []): Promise<ServiceProcess> {
  const folder = mkdtempSync(join(tmpdir(), "uis-process-"));
  const file = join(folder, "uis.yaml");
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ state: { durability: "none" }, ...config }));
  const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
  const program = [
    "--import",
    "tsx",
    ...nodeArgs,
    "src/app/cli.ts",
    "serve",
    "--json",
    "--config",
    file,
    "--data-dir",
    join(folder, "data"),
  ];
  const child = spawn(process.execPath, [...program, ...ports], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, LOG_LEVEL: "error" },
  });
  const ready = await readyLine(child);
  const { pid } = child;
  if (pid === undefined) throw new Error("the process did not start");
  const opsUrl = String(ready["ops"]);
  return {
    pid,
    port: Number(new URL(String(ready["api"])).port),
    key: (ready["api_key"] as { secret: string }).secret,
    debugState: async () => (await (await fetch(`${opsUrl}/debug/state`)).json()) as DebugState,
    rssBytes: () => Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * pageBytes,
    async kill() {
      const exited = once(child, "exit");
      if (child.kill("SIGKILL")) await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function readyLine(child: ChildProcess): Promise<Record<string, unknown>> {
  if (child.stdout === null) throw new Error("the process has no stdout");
  const exited = once(child, "exit").then(([code]) =>
    Promise.reject(new Error(`the service ended with ${code} before it was ready`)),
  );
  const [line] = await Promise.race([once(createInterface(child.stdout), "line"), exited]);
  return JSON.parse(String(line)) as Record<string, unknown>;
}
