import { type ForkOptions, fork, type ChildProcess as NodeChild } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Logger } from "../../domain/call/ports.js";
import type { FromChild, ToChild } from "./protocol/protocol.js";

/** A process that runs one model, as the server sees it: a message channel and an exit. */
export interface ChildProcess {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  /** Does nothing when the channel is closed: `onExit` follows. */
  send(message: ToChild): void;
  /** Closes the channel, which asks the process to end. */
  disconnect(): void;
  /** Ends it with SIGKILL, also when it is stopped. */
  kill(): void;
}

export interface ChildProcessListener {
  onMessage(message: FromChild): void;
  /** Called once, after the last message. */
  onExit(exit: ChildExit): void;
}

export interface ChildExit {
  /** How it ended, in words. */
  readonly how: string;
  /** What it wrote last to its standard error. */
  readonly lastLines: readonly string[];
}

/** `poolThreads`: native jobs that the child may run at the same time. */
export type StartChild = (listener: ChildProcessListener, poolThreads: number) => ChildProcess;

export interface ChildProcessDeps {
  readonly log: Logger;
  /** Of the server; the child gets the few variables that it needs. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** File that a child runs, instead of the engine's own. */
  readonly entry?: string;
}

/**
 * Starts the processes of one engine. None outlives the server: a child ends itself when the channel closes, and those
 * still alive are killed when the server exits.
 */
export function createChildStarter(deps: ChildProcessDeps): StartChild {
  const alive = new Set<NodeChild>();
  const killAll = (): void => {
    for (const child of alive) child.kill("SIGKILL");
  };
  return (listener, poolThreads) => {
    const { file, execArgv } = program(deps.entry);
    let child: NodeChild;
    try {
      child = fork(file, [], { ...forkOptions(deps.environment, poolThreads), execArgv });
    } catch (error) {
      queueMicrotask(() => listener.onExit({ how: `could not be started: ${String(error)}`, lastLines: [] }));
      return { pid: undefined, send: () => {}, disconnect: () => {}, kill: () => {} };
    }
    if (alive.size === 0) process.on("exit", killAll);
    alive.add(child);
    const { disconnect } = follow(child, deps.log, {
      onMessage: listener.onMessage,
      onExit(exit) {
        alive.delete(child);
        if (alive.size === 0) process.off("exit", killAll);
        listener.onExit(exit);
      },
    });
    return {
      pid: child.pid,
      send(message) {
        // A channel that breaks while a message is on its way is an exit, which has its own event.
        if (child.connected) child.send(message, () => {});
      },
      disconnect,
      kill: () => child.kill("SIGKILL"),
    };
  };
}

function follow(child: NodeChild, log: Logger, listener: ChildProcessListener): Pick<ChildProcess, "disconnect"> {
  const stderr = new StderrLog(log, { pid: child.pid });
  let exited = false;
  let isLeft = false;
  const exit = (how: string): void => {
    if (exited) return;
    exited = true;
    stderr.end();
    listener.onExit({ how, lastLines: stderr.lastLines });
  };
  child.stderr?.setEncoding("utf8").on("data", (text: string) => stderr.push(text));
  child.on("message", (message) => listener.onMessage(message as FromChild));
  child.on("error", (error) => {
    if (child.pid === undefined) exit(`could not be started: ${error.message}`);
    else log.warn({ pid: child.pid, err: error }, "engine process could not be reached");
  });
  // Unlike `exit`, `close` comes after the channel was read to its end. It never comes when we closed the channel.
  child.on("close", () => exit(howItEnded(child)));
  child.on("exit", () => {
    if (isLeft) exit(howItEnded(child));
  });
  return {
    disconnect() {
      isLeft = true;
      if (child.connected) child.disconnect();
      if (hasEnded(child)) exit(howItEnded(child));
    },
  };
}

function hasEnded({ exitCode, signalCode }: NodeChild): boolean {
  return exitCode !== null || signalCode !== null;
}

function howItEnded({ exitCode, signalCode }: NodeChild): string {
  return signalCode === null ? `exited with code ${exitCode}` : `was ended by ${signalCode}`;
}

function forkOptions(environment: ChildProcessDeps["environment"], poolThreads: number): ForkOptions {
  return {
    env: childEnvironment(environment, poolThreads),
    serialization: "advanced",
    // Libraries print to the standard output, which is the server's.
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  };
}

/** What lies beside this file: the compiled program, or in the repository its source, which tsx reads. */
function program(entry: string | undefined): { file: string; execArgv: string[] } {
  const compiled = fileURLToPath(new URL("./child/main.js", import.meta.url));
  const file = entry ?? (existsSync(compiled) ? compiled : fileURLToPath(new URL("./child/main.ts", import.meta.url)));
  return { file, execArgv: file.endsWith(".ts") ? ["--import", import.meta.resolve("tsx")] : [] };
}

/**
 * Environment variables passed to the child. Others, secrets above all, are withheld: the child runs native code on
 * untrusted files and prompts. The last two are for GPU builds of the binding.
 */
const passedOn = ["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"] as const;

/** The part of an environment that the child gets. Native jobs run in Node's thread pool. */
export function childEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  poolThreads: number,
): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of passedOn) {
    const value = environment[name];
    if (value !== undefined) passed[name] = value;
  }
  return { ...passed, UV_THREADPOOL_SIZE: String(poolThreads) };
}

/** Characters of a line that are kept; the rest of it is dropped. */
const lineCharsMax = 1_000;
/** Lines that are remembered, to say what a child wrote before it died. */
const lastLinesMax = 5;
const alarming = /error|fail|fatal|assert|exception|abort/i;
/** Escape sequences of terminals, and control characters, which could forge lines where logs are shown raw. */
const controls = /\p{Cc}\[[\d;]*[A-Za-z]|\p{Cc}/gu;

/** Takes what a child writes to its standard error and logs it by lines: alarming ones as warnings, others for debugging. */
export class StderrLog {
  readonly #log: Logger;
  readonly #fields: object;
  readonly #lastLines: string[] = [];
  #unfinished = "";

  constructor(log: Logger, fields: object) {
    this.#log = log;
    this.#fields = fields;
  }

  /** The newest lines, oldest first. */
  get lastLines(): readonly string[] {
    return this.#lastLines;
  }

  push(text: string): void {
    const lines = (this.#unfinished + text).split("\n");
    this.#unfinished = (lines.pop() ?? "").slice(0, lineCharsMax);
    for (const line of lines) this.#say(line);
  }

  end(): void {
    this.#say(this.#unfinished);
    this.#unfinished = "";
  }

  #say(raw: string): void {
    const line = raw.slice(0, lineCharsMax).replace(controls, "").trim();
    if (line === "") return;
    this.#lastLines.push(line);
    if (this.#lastLines.length > lastLinesMax) this.#lastLines.shift();
    const level = alarming.test(line) ? "warn" : "debug";
    this.#log[level]({ ...this.#fields, line }, "engine process wrote");
  }
}
