import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ReadyLine, type ServeProcess, spawnServe } from "./spawn-serve.js";

/** One of several processes that share a Redis. */
export interface Replica {
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  /** `http://127.0.0.1:<port>` */
  readonly ops: string;
  /** Lines of its log so far, parsed. */
  log(): readonly LogLine[];
  /** Whether settlements wait in its data folder. */
  hasSpooled(): Promise<boolean>;
}

export interface LogLine {
  readonly msg: string;
  readonly level: string;
  readonly [field: string]: unknown;
}

export interface Replicas {
  /** Secret of a key with the scope read_write. */
  readonly key: string;
  readonly all: readonly Replica[];
  /** Ends them and removes their files. */
  remove(): Promise<void>;
}

/** Starts a process for each URL, all of the same Redis; `config` is that of the configuration file. */
export async function startReplicas(urls: readonly string[], config: object): Promise<Replicas> {
  const root = mkdtempSync(join(tmpdir(), "uis-replicas-"));
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), LOG_LEVEL: "info" };
  const processes: ServeProcess[] = [];
  const remove = async () => {
    for (const { child } of processes) child.kill("SIGKILL");
    await Promise.all(processes.map(({ exited }) => exited));
    rmSync(root, { recursive: true, force: true });
  };
  try {
    const all: Replica[] = [];
    let key = "";
    for (const [number, redisUrl] of urls.entries()) {
      const cwd = join(root, String(number));
      mkdirSync(cwd);
      // JSON is YAML.
      writeFileSync(join(cwd, "uis.yaml"), JSON.stringify(withRedis(config, redisUrl)));
      const process = spawnServe({ cwd, env });
      processes.push(process);
      const ready = await process.ready;
      key ||= ready.api_key?.secret ?? "";
      all.push(toReplica(process, ready));
    }
    return { key, all, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

function withRedis(config: { readonly state?: object }, redisUrl: string): object {
  return { ...config, state: { ...config.state, redis_url: redisUrl } };
}

function toReplica({ stderr }: ServeProcess, { api, ops, data_dir: dataDir }: ReadyLine): Replica {
  return {
    http: new URL(api).origin,
    ops,
    log: () =>
      stderr()
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as LogLine),
    hasSpooled: async () => (await readdir(join(dataDir, "spool"))).length > 0,
  };
}
