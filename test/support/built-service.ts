import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawnServe } from "./spawn-serve.js";
import type { DebugState } from "./start-service.js";

/** The service as it is shipped, in a process of its own. */
export interface BuiltService {
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  /** `http://127.0.0.1:<port>` */
  readonly ops: string;
  /** Secret of the first key, where this process has made it; else empty. */
  readonly key: string;
  debugState(): Promise<DebugState>;
  /** Lines of its log so far, parsed. After the end of the process: all that it could write. */
  logs(): readonly Record<string, unknown>[];
  /** It stands still as a whole, its connections stay open. */
  freeze(): void;
  /** It goes on as if nothing had been. */
  thaw(): void;
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>;
  /** Ends it in order; resolves with its exit code. */
  stop(): Promise<number | string>;
}

export interface BuiltServiceOptions {
  /** For its configuration and its data; made when it is not there. */
  readonly folder: string;
  readonly config: object;
  readonly env?: Readonly<Record<string, string>>;
  /** Command line of a program that runs it. */
  readonly under?: readonly string[];
}

const program = fileURLToPath(new URL("../../dist/app/cli.js", import.meta.url));

/** Resolves when it is ready. Rejects when there is no build. */
export async function startBuiltService({
  folder,
  config,
  env = {},
  under = [],
}: BuiltServiceOptions): Promise<BuiltService> {
  if (!existsSync(program)) throw new Error("there is no build: npm run build");
  mkdirSync(folder, { recursive: true });
  // JSON is YAML.
  writeFileSync(join(folder, "uis.yaml"), JSON.stringify(config));
  const command = [...under, process.execPath, program, "serve"];
  const { child, ready, exited, stderr } = spawnServe({ cwd: folder, env, command });
  const { api, ops, api_key: key } = await ready;
  return {
    http: new URL(api).origin,
    ops,
    key: key?.secret ?? "",
    debugState: async () => (await (await fetch(`${ops}/debug/state`)).json()) as DebugState,
    logs: () =>
      stderr()
        .split("\n")
        .slice(0, -1)
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
    async stop() {
      child.kill("SIGTERM");
      return await exited;
    },
  };
}
