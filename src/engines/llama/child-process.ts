import { fork, type ChildProcess as NodeChild } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Logger } from "../../domain/call/ports.js";
import type { FromChild, ToChild } from "./protocol/protocol.js";

/** A process that runs one model: a message channel, and an exit that the listener receives. */
export interface ChildProcess {
  /** Process id; undefined if the process could not be started. */
  readonly pid: number | undefined;
  /** Sends a message. Does nothing if the channel is closed: `onExit` follows. */
  send(message: ToChild): void;
  /** Closes the channel; the process then ends by itself. */
  disconnect(): void;
  /** Sends SIGKILL, which also ends a stopped process. */
  kill(): void;
}

export interface ChildProcessListener {
  onMessage(message: FromChild): void;
  /**
   * Called once, after the last message. `how`: exit code, signal or start error, in words; `lastLines`: the last lines
   * that the process wrote to its standard error.
   */
  onExit(how: string, lastLines: readonly string[]): void;
}

/** `poolThreads`: native jobs that the child may run at the same time. */
export type StartChild = (listener: ChildProcessListener, poolThreads: number) => ChildProcess;

export interface ChildProcessDeps {
  readonly log: Logger;
  /** Environment variables of the server; the child gets those listed in `passedOn`. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Program of the child; default: `child/main`. */
  readonly childEntry?: string;
}

/**
 * Starts the processes of one engine. None outlives the server: a child exits when its channel closes, and children that
 * are still alive are killed when the server exits.
 */
export function createChildStarter({ log, environment, childEntry }: ChildProcessDeps): StartChild {
  const alive = new Set<NodeChild>();
  const killAll = (): void => {
    for (const child of alive) child.kill("SIGKILL");
  };
  return (listener, poolThreads) => {
    let child: NodeChild;
    try {
      child = forkChild(childEntry, environment, poolThreads);
    } catch (error) {
      queueMicrotask(() => listener.onExit(`could not be started: ${String(error)}`, []));
      return { pid: undefined, send: () => {}, disconnect: () => {}, kill: () => {} };
    }
    if (alive.size === 0) process.on("exit", killAll);
    alive.add(child);
    const stderr = createStderrLog(log, { pid: child.pid });
    const exit = (how: string): void => {
      if (!alive.delete(child)) return;
      if (alive.size === 0) process.off("exit", killAll);
      stderr.end();
      listener.onExit(how, stderr.lastLines);
    };
    let isDisconnected = false;
    child.stderr?.setEncoding("utf8").on("data", stderr.push);
    child.on("message", (message) => listener.onMessage(message as FromChild));
    child.on("error", (error) => {
      if (child.pid === undefined) exit(`could not be started: ${error.message}`);
      else log.warn({ pid: child.pid, err: error }, "engine process could not be reached");
    });
    // Unlike `exit`, `close` comes after all messages were read. It never comes once we have closed the channel.
    child.on("close", () => exit(howItEnded(child)));
    child.on("exit", () => {
      if (isDisconnected) exit(howItEnded(child));
    });
    return {
      pid: child.pid,
      send(message) {
        // An error of a channel that breaks during the call is ignored: the exit has its own event.
        if (child.connected) child.send(message, () => {});
      },
      disconnect() {
        isDisconnected = true;
        if (child.connected) child.disconnect();
        if (child.exitCode !== null || child.signalCode !== null) exit(howItEnded(child));
      },
      kill: () => child.kill("SIGKILL"),
    };
  };
}

function howItEnded({ exitCode, signalCode }: NodeChild): string {
  return signalCode === null ? `exited with code ${exitCode}` : `was ended by ${signalCode}`;
}

/**
 * Environment variables passed to the child. Others are not passed, because some hold secrets and the child runs native
 * code on untrusted files and prompts. The variables in the second line locate and select graphics cards.
 */
const passedOn = [
  ...["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH"],
  ...["CUDA_PATH", "CUDA_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"],
];

/** The environment variables of a process that runs native code. */
export function childEnvironment(environment: ChildProcessDeps["environment"]): Record<string, string | undefined> {
  return Object.fromEntries(passedOn.map((name) => [name, environment[name]]));
}

function forkChild(
  entry: string | undefined,
  environment: ChildProcessDeps["environment"],
  poolThreads: number,
): NodeChild {
  const compiled = fileURLToPath(new URL("./child/main.js", import.meta.url));
  // In the repository only the TypeScript source exists, which tsx loads.
  const file = entry ?? (existsSync(compiled) ? compiled : compiled.replace(/js$/, "ts"));
  return fork(file, [], {
    execArgv: file.endsWith(".ts") ? ["--import", import.meta.resolve("tsx")] : [],
    env: {
      ...childEnvironment(environment),
      // Native jobs run in Node's thread pool.
      UV_THREADPOOL_SIZE: String(poolThreads),
    },
    serialization: "advanced",
    // Standard output is ignored, because libraries print to it and it would be the server's.
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    // Its own process group: Ctrl-C on a terminal does not reach the child, which the server stops after its calls have ended.
    detached: true,
  });
}

/** Maximum characters of a line in the log; the rest of the line is dropped. */
const lineCharsMax = 1_000;
/** Number of last lines that are kept for the error of a child that dies. */
const lastLinesMax = 5;
const alarming = /error|fail|fatal|assert|exception|abort/i;
/** Escape sequences of terminals, and control characters, which could forge lines in a raw log. */
const controls = /\p{Cc}\[[\d;]*[A-Za-z]|\p{Cc}/gu;

/** Logs a child's standard error line by line: error lines as warnings, others at debug level. `lastLines`: oldest first. */
export function createStderrLog(log: Logger, fields: object) {
  const lastLines: string[] = [];
  let unfinished = "";
  const write = (raw: string): void => {
    const line = raw.slice(0, lineCharsMax).replace(controls, "").trim();
    if (line === "") return;
    lastLines.push(line);
    if (lastLines.length > lastLinesMax) lastLines.shift();
    log[alarming.test(line) ? "warn" : "debug"]({ ...fields, line }, "engine process wrote");
  };
  return {
    lastLines: lastLines as readonly string[],
    push(text: string): void {
      const lines = (unfinished + text).split("\n");
      unfinished = (lines.pop() ?? "").slice(0, lineCharsMax);
      for (const line of lines) write(line);
    },
    end(): void {
      write(unfinished);
      unfinished = "";
    },
  };
}
