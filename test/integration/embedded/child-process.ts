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
  /** Variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command line of a program that runs the child. */
  readonly under?: readonly string[];
}

/** A process that runs state-child.ts, and the messages that it sends. The caller kills it. */
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
    this.process.on("disconnect", () => this.#hearing?.reject(new Error("the child ended before this message")));
  }

  tell(message: ToChild): void {
    this.process.send(message);
  }

  /** Resolves with the first message, past or future, that satisfies the condition; rejects if the child ends. */
  hear(condition: (message: FromChild) => boolean): Promise<FromChild> {
    const heard = this.said.find(condition);
    if (heard !== undefined) return Promise.resolve(heard);
    return new Promise((resolve, reject) => {
      this.#hearing = { condition, resolve, reject };
    });
  }

  /** Numbers of the operations that the child has reported as acknowledged. */
  get acknowledged(): number[] {
    return this.said.flatMap((message) => (message.kind === "answer" && message.said === "done" ? message.number : []));
  }

  /** Kills the child (kill -9), and waits until all of its messages have arrived. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const closed = once(this.process, "close");
    this.process.kill("SIGKILL");
    await closed;
  }
}
