import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { Channel, type Handlers, type OnFailed } from "./channel.js";
import { passOnUntaken } from "./handed-connections.js";
import { toPrimary, type WorkerReady, type WorkerRefusal } from "./messages.js";

/** How a process ended. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

interface WorkerDeps {
  readonly number: number;
  /** Answers to questions of the worker. */
  readonly handlers: Handlers;
  /** Called when a handler fails and the worker does not wait for an answer. */
  readonly onFailed: OnFailed;
  /** Whether another worker is ready. */
  readonly hasOther: () => boolean;
  /** Called with the worker's output on stderr: lines of the log. */
  readonly onLog: (lines: Buffer) => void;
}

/** A worker, as the first process sees it. */
export class WorkerProcess {
  readonly number: number;
  readonly channel: Channel;
  readonly startedAtMs = Date.now();
  /** Resolves when the worker is ready; with null if it ended before. */
  readonly ready: Promise<WorkerReady | null>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<WorkerEnd>;
  /** Resolves when the process has ended and all its output was read. */
  readonly closed: Promise<unknown>;
  /** Why the worker could not start; null if it gave no reason. */
  refusal: WorkerRefusal | null = null;
  isReady = false;
  readonly #worker: Worker;

  constructor({ number, handlers, onFailed, hasOther, onLog }: WorkerDeps) {
    this.number = number;
    const worker = cluster.fork();
    this.#worker = worker;
    const { process: child } = worker;
    child.stderr?.on("data", onLog);
    passOnUntaken(child, hasOther);
    this.ended = once(child, "exit").then(([code, signal]: (number | string | null)[]) => ({
      code: typeof code === "number" ? code : null,
      signal: typeof signal === "string" ? signal : null,
    }));
    this.closed = once(child, "close");
    let resolveReady = (_ready: WorkerReady | null): void => {};
    this.ready = new Promise((resolve) => {
      resolveReady = resolve;
    });
    const answers: Handlers = {
      ...handlers,
      [toPrimary.ready]: (ready: WorkerReady) => {
        this.isReady = true;
        resolveReady(ready);
      },
      [toPrimary.refused]: (refusal: WorkerRefusal) => {
        this.refusal = refusal;
      },
    };
    this.channel = new Channel((message) => this.#send(message), answers, onFailed);
    worker.on("message", (message) => this.channel.receive(message));
    // A message to a process that has just ended fails; its end is handled elsewhere.
    worker.on("error", () => {});
    void this.ended.then(() => {
      this.isReady = false;
      resolveReady(null);
      this.channel.close();
    });
  }

  get pid(): number {
    return this.#worker.process.pid ?? 0;
  }

  kill(): void {
    this.#worker.process.kill("SIGKILL");
  }

  #send(message: object): void {
    if (this.#worker.isConnected()) this.#worker.send(message as never, () => {});
  }
}
