import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uisProgram } from "./program.js";
import type { DebugState } from "./start-service.js";

/** The line that `uis serve --json` prints. */
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

/** `uis serve` in a separate process. */
export interface ServeProcess {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves with the first line of stdout; rejects if the process ends before. */
  readonly ready: Promise<ReadyLine>;
  /** Exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;
}

export interface SpawnOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Arguments of Node itself, if no command is given. */
  readonly nodeArgs?: readonly string[];
  /** The program to run; default: `uis serve`. */
  readonly command?: readonly string[];
  /** Changes the command line, for example to run it under another program. */
  readonly under?: (command: readonly string[]) => readonly string[];
}

/** Starts the process. It uses free ports unless `args` or `env` set them. The caller ends the process. */
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
  // Tests of a failing start use only `exited`.
  ready.catch(() => {});
  child.stderr.on("data", (data: Buffer) => {
    written.stderr += data;
  });
  return { child, ready, exited, stdout: () => written.stdout, stderr: () => written.stderr };
}

/** A parsed line of a service's log. */
export interface LogLine {
  readonly msg: string;
  readonly level: string;
  readonly [field: string]: unknown;
}

/** A running, ready service in a separate process. */
export interface ServiceProcess extends ServeProcess {
  readonly line: ReadyLine;
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly ops: string;
  /** Secret of the first key if this process created it, else empty. */
  readonly key: string;
  debugState(): Promise<DebugState>;
  /** Lines of its log so far; complete after the process has ended. */
  logs(): readonly LogLine[];
  /** Current resident memory. */
  rssBytes(): number;
  /** Suspends the whole process (SIGSTOP); its connections stay open. */
  freeze(): void;
  thaw(): void;
  /** Kills it (kill -9); resolves when the process has ended. */
  kill(): Promise<void>;
  /** Stops it with a signal that lets it drain; resolves with its exit code. */
  stop(): Promise<number | string>;
}

export interface ProcessOptions extends Omit<SpawnOptions, "cwd"> {
  /** Folder of its configuration and data; created if missing. */
  readonly folder: string;
  /** Settings as in the configuration file. */
  readonly config: object;
}

/** Starts `uis serve` in a separate process; resolves when it is ready. The caller ends it. */
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

/** Processes of the service that use one folder one after another or concurrently. The folder is removed with them. */
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

  /** Starts `uis serve` on the folder without waiting until it is ready. */
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

  /** Runs a start that must fail; returns its exit code and the line with cause and fix. */
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
