import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { FromChild, ToChild } from "./state-child.js";

interface Hearing {
  readonly condition: (message: FromChild) => boolean;
  resolve(message: FromChild): void;
  reject(error: Error): void;
}

export interface ChildOptions {
  /** Beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command line of a program that runs the child. */
  readonly under?: readonly string[];
}

/** A state-child process and its output. The caller kills it. */
export class StateChild {
  readonly process: ChildProcess;
  readonly said: FromChild[] = [];
  #hearing: Hearing | null = null;

  constructor(dataDir: string, { env = {}, under = [] }: ChildOptions = {}) {
    const file = fileURLToPath(new URL("./state-child.ts", import.meta.url));
    const [execPath = process.execPath, ...args] = [...under, process.execPath];
    this.process = fork(file, [dataDir], {
      execPath,
      execArgv: [...args, "--import", "tsx"],
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.process.on("message", (message: FromChild) => {
      this.said.push(message);
      if (this.#hearing?.condition(message)) this.#hearing.resolve(message);
    });
    this.process.on("disconnect", () => this.#hearing?.reject(new Error("the child ended without saying it")));
  }

  tell(message: ToChild): void {
    this.process.send(message);
  }

  /** Resolves with the first message, said before or later, that satisfies the condition; rejects when the child ends. */
  hear(condition: (message: FromChild) => boolean): Promise<FromChild> {
    const heard = this.said.find(condition);
    if (heard !== undefined) return Promise.resolve(heard);
    return new Promise((resolve, reject) => {
      this.#hearing = { condition, resolve, reject };
    });
  }

  /** Numbers of the verbs that were acknowledged. */
  get acknowledged(): number[] {
    return this.said.flatMap((message) => (message.kind === "answer" && message.said === "done" ? message.number : []));
  }

  /** kill -9, and wait until everything that it had said has arrived. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const closed = once(this.process, "close");
    this.process.kill("SIGKILL");
    await closed;
  }
}
