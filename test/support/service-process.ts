import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uisProgram } from "./program.js";
import type { DebugState } from "./start-service.js";

/** What `uis serve --json` prints. */
export interface ReadyLine {
  readonly event: "ready";
  readonly version: string;
  readonly api: string;
  readonly grpc: string;
  readonly ops: string;
  readonly dashboard: string | null;
  readonly api_key: {
    readonly id: string;
    readonly name: string;
    readonly scope: string;
    readonly secret: string;
  } | null;
  readonly models: readonly string[];
  readonly data_dir: string;
  readonly state: string;
}

/** `uis serve` in a process of its own. */
export interface ServeProcess {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves with the first line of stdout; rejects when the process ends before. */
  readonly ready: Promise<ReadyLine>;
  /** Exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;
}

export interface SpawnOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Arguments of Node itself, where no command is given. */
  readonly nodeArgs?: readonly string[];
  /** The program to run; default: `uis serve`. */
  readonly command?: readonly string[];
  /** Replaces the command line, for example to run it under another program. */
  readonly under?: (command: readonly string[]) => readonly string[];
}

/** Ports are free ones unless `args` or `env` say otherwise. The caller ends the process. */
export function spawnServe(options: SpawnOptions): ServeProcess {
  const { args = ["--json"], env = {}, cwd, nodeArgs = [], under = (command) => command } = options;
  const command = options.command ?? [process.execPath, ...nodeArgs, ...uisProgram, "serve"];
  const [program = "", ...rest] = under(command);
  const child = spawn(program, [...rest, ...args], {
    cwd,
    env: { PATH: process.env["PATH"], PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0", UIS_OFFLINE: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const written = { stdout: "", stderr: "" };
  const exited = once(child, "close").then(([code, signal]: (number | string | null)[]) => code ?? signal ?? "unknown");
  const ready = new Promise<ReadyLine>((resolve, reject) => {
    child.stdout.on("data", (data: Buffer) => {
      written.stdout += data;
      const [line, end] = written.stdout.split("\n", 2);
      if (end !== undefined && line?.startsWith("{")) resolve(JSON.parse(line) as ReadyLine);
    });
    exited.then((how) => reject(new Error(`serve ended with ${how}: ${written.stderr}`)), reject);
  });
  // Tests of a failing start look at `exited` only.
  ready.catch(() => {});
  child.stderr.on("data", (data: Buffer) => {
    written.stderr += data;
  });
  return { child, ready, exited, stdout: () => written.stdout, stderr: () => written.stderr };
}

/** A line of a service's log, parsed. */
export interface LogLine {
  readonly msg: string;
  readonly level: string;
  readonly [field: string]: unknown;
}

/** A service in a process of its own that is ready. */
export interface ServiceProcess extends ServeProcess {
  readonly line: ReadyLine;
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly ops: string;
  /** Secret of the first key, where this process has created it; else empty. */
  readonly key: string;
  debugState(): Promise<DebugState>;
  /** Lines of its log so far; complete after the end of the process. */
  logs(): readonly LogLine[];
  /** Resident memory now. */
  rssBytes(): number;
  /** Stops the process as a whole (SIGSTOP); its connections stay open. */
  freeze(): void;
  thaw(): void;
  /** kill -9; resolves when the process has ended. */
  kill(): Promise<void>;
  /** Ends it in order; resolves with its exit code. */
  stop(): Promise<number | string>;
}

export interface ProcessOptions extends Omit<SpawnOptions, "cwd"> {
  /** For its configuration and its data; created when it is not there. */
  readonly folder: string;
  /** Settings as in the configuration file. */
  readonly config: object;
}

/** Starts `uis serve` in a process of its own; resolves when it is ready. The caller ends it. */
export async function startServiceProcess({ folder, config, ...options }: ProcessOptions): Promise<ServiceProcess> {
  writeConfig(folder, config);
  const running = spawnServe({ cwd: folder, ...options });
  return readyProcess(running, await running.ready);
}

function writeConfig(folder: string, config: object): void {
  mkdirSync(folder, { recursive: true });
  // JSON is YAML.
  writeFileSync(join(folder, "uis.yaml"), JSON.stringify(config));
}

const pageBytes = 4096;

function readyProcess(running: ServeProcess, line: ReadyLine): ServiceProcess {
  const { child, exited, stderr } = running;
  const http = new URL(line.api).origin;
  return {
    ...running,
    line,
    http,
    port: Number(new URL(http).port),
    ops: line.ops,
    key: line.api_key?.secret ?? "",
    debugState: async () => (await (await fetch(`${line.ops}/debug/state`)).json()) as DebugState,
    logs: () =>
      stderr()
        .split("\n")
        .slice(0, -1)
        .filter((text) => text.startsWith("{"))
        .map((text) => JSON.parse(text) as LogLine),
    rssBytes: () => Number(readFileSync(`/proc/${child.pid}/statm`, "utf8").split(" ")[1]) * pageBytes,
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

/** Consecutive or concurrent processes of the service on one folder, which is removed with them. */
export class ServiceFolder {
  readonly folder: string;
  readonly #started: ServeProcess[] = [];

  static async create(): Promise<ServiceFolder> {
    return new ServiceFolder(await mkdtemp(join(tmpdir(), "uis-served-")));
  }

  private constructor(folder: string) {
    this.folder = folder;
  }

  get dataDir(): string {
    return join(this.folder, "data");
  }

  /** Spawns `uis serve` on the folder; does not wait until it is ready. */
  spawn(options: Partial<SpawnOptions> = {}): ServeProcess {
    const running = spawnServe({ cwd: this.folder, ...options });
    this.#started.push(running);
    return running;
  }

  /** Writes `config` as the configuration file and starts; resolves when it is ready. */
  async start(config: object, options: Partial<SpawnOptions> = {}): Promise<ServiceProcess> {
    const running = this.#configured(config, options);
    return readyProcess(running, await running.ready);
  }

  /** A start that must fail: its exit code, and the line with cause and remedy. */
  async refused(config: object, options: Partial<SpawnOptions> = {}): Promise<{ code: number | string; line: string }> {
    const { exited, stderr } = this.#configured(config, options);
    const code = await exited;
    return { code, line: stderr().trim().split("\n").at(-1) ?? "" };
  }

  async stopAll(): Promise<void> {
    for (const { child, exited } of this.#started.splice(0)) {
      child.kill("SIGKILL");
      await exited;
    }
  }

  async remove(): Promise<void> {
    await this.stopAll();
    await rm(this.folder, { recursive: true, force: true });
  }

  #configured(config: object, options: Partial<SpawnOptions>): ServeProcess {
    writeConfig(this.folder, config);
    return this.spawn(options);
  }
}
