import type { Logger } from "../../domain/call/ports.js";
import { CommandError } from "../command-line/cli-io.js";
import { StartError } from "../process/lifecycle.js";
import { answerMs } from "./channel.js";
import { toWorker, type WorkerReady } from "./messages.js";
import { Restarts, tooManyCrashes } from "./restarts.js";
import type { WorkerEnd, WorkerProcess } from "./worker-process.js";

/** Delay before a worker that cannot start, e.g. without its store, is tried again while other workers are ready. */
const refusedDelayMs = 5_000;

interface WorkerPoolDeps {
  readonly count: number;
  /** Starts the process of a worker. */
  readonly fork: (number: number, isFirst: boolean) => WorkerProcess;
  /** Called when the process of a worker has ended. */
  readonly onEnded: (worker: WorkerProcess) => void;
  /** Called once, when the workers crash too often. */
  readonly onFailed: (error: Error) => void;
  readonly log: Logger;
}

/** An answer of one worker. */
export interface WorkerAnswer {
  readonly worker: WorkerProcess;
  readonly parts: readonly unknown[];
}

/** The workers of a service: starts them, replaces those that end, and stops them. */
export class WorkerPool {
  /** Replacements of workers that ended unexpectedly. */
  replaced = 0;
  readonly #deps: WorkerPoolDeps;
  readonly #running = new Map<number, WorkerProcess>();
  readonly #restarts = new Restarts(() => performance.now());
  readonly #timers = new Set<NodeJS.Timeout>();
  #isStopping = false;
  /** Whether all workers were ready once. Before, the end of a worker fails the start. */
  #hasStarted = false;
  #stopDrainMs: number | null = null;

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
  }

  /** The running workers in the order of their numbers. */
  get running(): readonly WorkerProcess[] {
    return [...this.#running.values()].sort((a, b) => a.number - b.number);
  }

  get ready(): readonly WorkerProcess[] {
    return this.running.filter(({ isReady }) => isReady);
  }

  /**
   * Starts the first worker, which prepares the store, then the others. Resolves with the message of the first one;
   * with null if the service was stopped during the start. Rejects with StartError or CommandError if one cannot start.
   */
  async start(): Promise<WorkerReady | null> {
    const first = await this.#startOne(1, true);
    const others = Array.from({ length: this.#deps.count - 1 }, (_, i) => this.#startOne(i + 2, false));
    const ready = await Promise.all(others);
    this.#hasStarted = true;
    return ready.includes(null) ? null : first;
  }

  /** Asks all ready workers. Answers of workers that end or do not answer in time are missing. */
  async askAll(name: string, body: unknown = null, waitMs = answerMs): Promise<readonly WorkerAnswer[]> {
    const answers = await Promise.all(
      this.ready.map(async (worker) => {
        const parts = await worker.channel.ask(name, body, waitMs).catch((err: unknown) => {
          this.#deps.log.debug({ err, worker: worker.number }, "a worker did not answer");
          return null;
        });
        return parts === null ? [] : [{ worker, parts }];
      }),
    );
    return answers.flat();
  }

  /**
   * Stops all workers: each drains, for at most `drainMs` (null: as configured). Those that run after `withinMs` are killed.
   * Resolves with whether all have ended regularly.
   */
  async stop(drainMs: number | null, withinMs: number): Promise<boolean> {
    this.#isStopping = true;
    this.#stopDrainMs = drainMs;
    for (const timer of this.#timers) clearTimeout(timer);
    const stopping = this.running;
    const ends = stopping.map(({ ended }) => ended);
    for (const { channel } of stopping) channel.tell(toWorker.stop, drainMs);
    const late = setTimeout(() => this.kill(), withinMs);
    const codes = await Promise.all(ends);
    clearTimeout(late);
    await Promise.all(stopping.map(({ closed }) => closed));
    return codes.every(({ code }) => code === 0);
  }

  /** Kills all workers immediately. */
  kill(): void {
    this.#isStopping = true;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const worker of this.running) worker.kill();
  }

  #fork(number: number, isFirst: boolean): WorkerProcess {
    const worker = this.#deps.fork(number, isFirst);
    this.#running.set(number, worker);
    void worker.ended.then((end) => this.#ended(worker, end));
    return worker;
  }

  async #startOne(number: number, isFirst: boolean): Promise<WorkerReady | null> {
    if (this.#isStopping) return null;
    const worker = this.#fork(number, isFirst);
    const ready = await worker.ready;
    if (ready !== null || this.#isStopping) return ready;
    if (worker.refusal !== null) throw new StartError(worker.refusal.message, worker.refusal.fix);
    throw new CommandError(`worker ${number} ended ${endText(await worker.ended)} before it was ready`);
  }

  #ended(worker: WorkerProcess, end: WorkerEnd): void {
    this.#running.delete(worker.number);
    this.#deps.onEnded(worker);
    if (this.#isStopping || !this.#hasStarted) return;
    const { number, pid, refusal } = worker;
    const { log } = this.#deps;
    if (refusal !== null && this.ready.length > 0) {
      log.error({ worker: number, reason: refusal.message, retry_in_ms: refusedDelayMs }, "a worker cannot start");
      this.#replaceAfter(number, refusedDelayMs);
      return;
    }
    // With exit code 0 an operator has stopped this worker alone.
    const delayMs = end.code === 0 ? 0 : this.#restarts.crashed();
    const fields = { worker: number, pid, ended: endText(end) };
    if (delayMs === null) {
      log.error(fields, "a worker ended unexpectedly");
      this.#deps.onFailed(new CommandError(tooManyCrashes));
      return;
    }
    log.warn({ ...fields, replaced_in_ms: delayMs }, "a worker ended unexpectedly");
    this.#replaceAfter(number, delayMs);
  }

  #replaceAfter(number: number, delayMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.#replace(number);
    }, delayMs);
    this.#timers.add(timer);
  }

  async #replace(number: number): Promise<void> {
    const worker = this.#fork(number, false);
    this.replaced += 1;
    if ((await worker.ready) === null) return;
    if (this.#isStopping) worker.channel.tell(toWorker.stop, this.#stopDrainMs);
    this.#deps.log.info({ worker: number, pid: worker.pid }, "a worker was replaced");
  }
}

function endText({ code, signal }: WorkerEnd): string {
  return signal === null ? `with exit code ${code}` : `by ${signal}`;
}
