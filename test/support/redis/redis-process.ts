import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { needsInstalled } from "../missing-program.js";

const run = promisify(execFile);

/** A Redis program with its own port and folder. It ends no later than the test process. */
export interface RedisProcess {
  readonly port: number;
  readonly folder: string;
  /** Runs `redis-cli` against this server; rejects when the server replies `-…`. */
  cli(...args: string[]): Promise<string>;
  /** Resolves when the program has ended for any reason. */
  ended(): Promise<void>;
  /** Shuts the program down, so that its data is written. */
  stop(): Promise<void>;
  kill(): Promise<void>;
  /** Freezes it: connections stay open without answers. */
  freeze(): void;
  thaw(): void;
  /** Starts it again on the same port and folder; with `wait: false`, resolves before it has loaded. */
  restart(options?: { readonly wait?: boolean }): Promise<void>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

export interface ProgramOptions {
  readonly args: readonly string[];
  readonly port: number;
  readonly folder: string;
  /** A log line that reports readiness. */
  readonly readyLine: string;
  /** Credentials for `redis-cli`. */
  readonly cliArgs?: readonly string[];
  /** Variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Changes the command line, for example to run it under another program. */
  readonly under?: (command: readonly string[]) => readonly string[];
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "uis-redis-"));
}

/** A free port below the range of ephemeral ports, so that a restarted server can use it again. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 15_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer();
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** Starts `redis-server` and waits until it is ready. Rejects with its log if it ends before. */
export async function startProgram(options: ProgramOptions): Promise<RedisProcess> {
  const { port, folder, cliArgs = [] } = options;
  needsInstalled("redis-server");
  let child = await spawnServer(options, true);
  const ended = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    await once(child, "exit");
  };
  const end = async (signal: NodeJS.Signals) => {
    const exited = ended();
    child.kill("SIGCONT");
    child.kill(signal);
    await exited;
  };
  return {
    port,
    folder,
    async cli(...args) {
      const { stdout } = await run("redis-cli", ["-e", "-p", String(port), ...cliArgs, ...args]);
      return stdout.trim();
    },
    ended,
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    async restart({ wait = true } = {}) {
      await repairAof(folder);
      child = await spawnServer(options, wait);
    },
    async remove() {
      await end("SIGKILL");
      // A child process of the killed server may still be writing.
      rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    },
  };
}

/**
 * Removes a transaction that a crash left unfinished, as docs/operations.md recommends: Redis itself keeps the beginning of the
 * transaction in the file, and applies it at the start after the next one.
 */
async function repairAof(folder: string): Promise<void> {
  const manifest = join(folder, "appendonlydir", "appendonly.aof.manifest");
  if (!existsSync(manifest)) return;
  const repair = run("redis-check-aof", ["--fix", manifest]);
  repair.child.stdin?.end("y\n");
  await repair;
}

async function spawnServer(options: ProgramOptions, wait: boolean): Promise<ChildProcess> {
  const { args, folder, readyLine, env = {}, under = (command) => command } = options;
  const [program = "", ...rest] = under(["redis-server", ...args]);
  const child = spawn(program, rest, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  running.add(child);
  const log: string[] = [];
  const ready = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => {
      running.delete(child);
      reject(new Error(`redis-server ended:\n${log.join("\n")}`));
    });
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      if (line.includes(readyLine)) resolve();
      if (log.push(line) > 100) log.shift();
    });
  });
  if (wait) await ready;
  else ready.catch(() => {});
  return child;
}
