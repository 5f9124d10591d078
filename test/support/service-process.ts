import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnServe } from "./spawn-serve.js";
import type { DebugState } from "./start-service.js";

export interface ServiceProcess {
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
 * The service in a process of its own with its state in memory, for what only a process shows, such as its size.
 * `nodeArgs` come before the program, e.g. an `--import` that plants a fault.
 */
export async function startServiceProcess(config: object, nodeArgs: readonly string[] = []): Promise<ServiceProcess> {
  const folder = mkdtempSync(join(tmpdir(), "uis-process-"));
  // JSON is YAML.
  writeFileSync(join(folder, "uis.yaml"), JSON.stringify({ state: { durability: "none" }, ...config }));
  const { child, ready, exited } = spawnServe({ cwd: folder, nodeArgs, env: { LOG_LEVEL: "error" } });
  const { api, ops, api_key: key } = await ready;
  return {
    port: Number(new URL(api).port),
    key: key?.secret ?? "",
    debugState: async () => (await (await fetch(`${ops}/debug/state`)).json()) as DebugState,
    rssBytes: () => Number(readFileSync(`/proc/${child.pid}/statm`, "utf8").split(" ")[1]) * pageBytes,
    async kill() {
      child.kill("SIGKILL");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
