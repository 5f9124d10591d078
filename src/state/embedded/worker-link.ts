import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { StateOpenError } from "../../domain/service/state.js";
import { sqliteCodes, storageFault } from "./database/sqlite.js";
import type { DeliveryBounds } from "./deliveries/delivery-rows.js";
import type { LiveRow } from "./live-requests.js";
import type { SettledUsage } from "./settlements.js";
import type { Outcome, Reads, Request, Writes } from "./verbs.js";

/** Requests that may wait; beyond it the disk does not keep up and new ones are refused. */
const waitingMax = 10_000;
/** Keeps one transaction to some milliseconds of work. */
const batchMax = 1_000;

interface Waiting {
  readonly request: Request;
  readonly isWrite: boolean;
  /** Whether somebody waits for it to be on the disk. */
  readonly isSynced: boolean;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** A settlement that waits for the next batch. */
interface WaitingUsage {
  readonly row: SettledUsage;
  resolve(isDuplicate: boolean): void;
  reject(error: Error): void;
}

/** How the stores reach the database. Each call is one atomic step. */
export interface StoreLink extends Pick<WorkerLink, "read" | "write" | "writeUnsynced"> {
  /** True: the request was settled before. State in memory answers at once and leaves that check to the ledger. */
  settleUsage(row: SettledUsage): boolean | Promise<boolean>;
}

/**
 * The main thread's end of the store's worker. One batch is in flight at a time; requests that arrive meanwhile become
 * the next one, so batches grow with the load and with the latency of the disk.
 */
export class WorkerLink {
  /** What the worker found questionable when it opened the file. */
  readonly openWarnings: readonly string[];
  readonly #worker: Worker;
  readonly #log: Logger;
  readonly #exited: Promise<void>;
  #waiting: Waiting[] = [];
  #waitingUsage: WaitingUsage[] = [];
  #startsSoon = false;
  #underWay: readonly Waiting[] = [];
  /** Why nothing more is taken; null while the link is in use. */
  #refusal: string | null = null;
  #onIdle: () => void = () => {};
  #carried: () => readonly LiveRow[] | null = () => null;
  #writeFault: string | null = null;

  /** Waits until the worker has opened the file. Rejects with StateOpenError when it could not. */
  static async open(worker: Worker, log: Logger): Promise<WorkerLink> {
    const exited = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
    const silent = exited.then(() => Promise.reject(new Error("the store's thread ended before it opened the file")));
    const [first] = (await Promise.race([once(worker, "message"), silent])) as [FromWorker];
    if (first.kind === "opened") return new WorkerLink(worker, exited, first.warnings, log);
    await exited;
    if (first.kind === "refused") throw new StateOpenError(first.message, first.fix);
    throw new Error(`the store's thread began with ${first.kind}`);
  }

  private constructor(worker: Worker, exited: Promise<void>, openWarnings: readonly string[], log: Logger) {
    this.#worker = worker;
    this.#log = log;
    this.#exited = exited;
    this.openWarnings = openWarnings;
    worker.on("message", (message: FromWorker) => {
      if (message.kind === "outcomes") this.#finishBatch(message.outcomes);
    });
    worker.on("error", (error) => {
      log.error({ err: error }, "the store's thread has died");
      this.#fail(error);
    });
    // The usual end after close(), and then nothing is left to fail.
    worker.on("exit", () => this.#fail(new Error("the store's thread ended")));
  }

  /** Why the last write failed; null when it did not. */
  get writeFault(): string | null {
    return this.#writeFault;
  }

  read<V extends keyof Reads>(verb: V, ...values: Parameters<Reads[V]>): Promise<ReturnType<Reads[V]>> {
    return this.#ask({ verb, values }, false) as Promise<ReturnType<Reads[V]>>;
  }

  /** Resolves after the commit: the write then survives a power cut. */
  write<V extends keyof Writes>(verb: V, ...values: Parameters<Writes[V]>): Promise<ReturnType<Writes[V]>> {
    return this.#ask({ verb, values }, true) as Promise<ReturnType<Writes[V]>>;
  }

  /** Resolves after the commit: the write survives a kill, but a power cut only when a later one is synced. */
  writeUnsynced<V extends keyof Writes>(verb: V, ...values: Parameters<Writes[V]>): Promise<ReturnType<Writes[V]>> {
    return this.#ask({ verb, values }, true, false) as Promise<ReturnType<Writes[V]>>;
  }

  /**
   * Rows of running requests that go first in every batch, as they are then; null: none. Nobody waits for them, and for
   * them alone nothing is synced. Rows that cannot be written are lost: only a kill before the settlement would tell.
   */
  carry(take: () => readonly LiveRow[] | null): void {
    this.#carried = take;
  }

  /** Starts a batch for what `carry` has, unless one is under way. */
  nudge(): void {
    if (this.#refusal === null) this.#startBatch();
  }

  /** Like write("settle") for a settlement that only adds usage. Resolves with true when the request was settled before. */
  settleUsage(row: SettledUsage): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#refusal !== null) return reject(unavailable(this.#refusal));
      if (this.#waitingUsage.length >= waitingMax) return reject(unavailable(`${waitingMax} settlements wait for it`));
      this.#waitingUsage.push({ row, resolve, reject });
      this.#startSoon();
    });
  }

  /** Resolves when everything asked for is done, the file is closed and the thread has ended. */
  async close(): Promise<void> {
    if (this.#refusal === null) {
      this.#startBatch();
      this.#refusal = "it is closed";
      await this.#idle();
      this.#say({ kind: "close" });
    }
    await this.#exited;
  }

  #ask(request: Request, isWrite: boolean, isSynced = isWrite): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#refusal !== null) return reject(unavailable(this.#refusal));
      if (this.#waiting.length >= waitingMax) return reject(unavailable(`${waitingMax} requests wait for it`));
      this.#waiting.push({ request, isWrite, isSynced, resolve, reject });
      this.#startBatch();
    });
  }

  /** At the end of this turn of the event loop, because other requests of the same turn may end as well. */
  #startSoon(): void {
    if (this.#underWay.length > 0 || this.#startsSoon) return;
    this.#startsSoon = true;
    setImmediate(() => {
      this.#startsSoon = false;
      if (this.#refusal === null) this.#startBatch();
    });
  }

  #startBatch(): void {
    if (this.#underWay.length > 0) return;
    const next = this.#waiting.splice(0, batchMax);
    if (this.#waitingUsage.length > 0) next.push(settleAll(this.#waitingUsage.splice(0, batchMax)));
    const rows = this.#carried();
    if (rows !== null) next.unshift(this.#unawaited({ verb: "noteLive", values: [rows] }));
    this.#underWay = next;
    if (next.length === 0) this.#onIdle();
    else {
      const isSynced = next.some((waiting) => waiting.isSynced);
      this.#say({ kind: "batch", requests: next.map(({ request }) => request), isSynced });
    }
  }

  /** Nobody waits for the result; a full disk is reported by the writes that somebody waits for. */
  #unawaited(request: Request): Waiting {
    const reject = (err: Error): void => {
      if (!(err instanceof ServiceError)) this.#log.error({ err }, "running requests cannot be noted in the store");
    };
    return { request, isWrite: true, isSynced: false, resolve: () => {}, reject };
  }

  #finishBatch(outcomes: readonly Outcome[]): void {
    const done = this.#underWay;
    this.#underWay = [];
    done.forEach(({ resolve, reject, isWrite }, position) => {
      const outcome = outcomes[position] ?? { ok: false, message: "the store gave no answer", sqlite: null };
      if (isWrite) this.#noteWrite(outcome.ok ? null : storageFault(outcome.sqlite));
      if (outcome.ok) resolve(outcome.value);
      else reject(errorOf(outcome));
    });
    this.#startBatch();
  }

  /** One line when writing begins to fail and one when it works again, not one for each write. */
  #noteWrite(fault: string | null): void {
    if (fault === this.#writeFault) return;
    this.#writeFault = fault;
    if (fault === null) this.#log.info({}, "the store can be written again");
    else this.#log.error({ fault }, "the store cannot be written");
  }

  /** The thread is gone: nobody will answer any more. */
  #fail(cause: Error): void {
    this.#refusal ??= "its thread has died; the service must be restarted";
    const left = [...this.#underWay, ...this.#waiting, ...this.#waitingUsage];
    this.#underWay = [];
    this.#waiting = [];
    this.#waitingUsage = [];
    for (const { reject } of left) reject(unavailable(this.#refusal, cause));
    this.#onIdle();
  }

  #idle(): Promise<void> {
    if (this.#underWay.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #say(message: ToWorker): void {
    this.#worker.postMessage(message);
  }
}

/** One request for all of them, as text: an object for each settlement costs 10 µs on its way between the threads. */
function settleAll(usages: readonly WaitingUsage[]): Waiting {
  return {
    request: { verb: "settleAll", values: [JSON.stringify(usages.map(({ row }) => row))] },
    isWrite: true,
    isSynced: true,
    resolve(duplicates: readonly number[]) {
      usages.forEach(({ resolve }, position) => {
        resolve(duplicates.includes(position));
      });
    },
    reject(error) {
      for (const { reject } of usages) reject(error);
    },
  };
}

export function errorOf({ message, sqlite }: Outcome & { ok: false }): Error {
  const fault = storageFault(sqlite);
  if (fault !== null) return unavailable(fault, new Error(message));
  if (sqlite === sqliteCodes.CONSTRAINT) {
    return new ServiceError("conflict", "An object with this id or secret exists.", { cause: new Error(message) });
  }
  return new Error(`the store failed: ${message}`);
}

function unavailable(why: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_unavailable", `The store cannot be used: ${why}.`, { cause });
}

/** Messages are copied between the threads, so they hold plain values only. */
export interface WorkerStart {
  readonly dataDir: string;
  readonly bounds: DeliveryBounds;
}

export type ToWorker =
  /** Without the sync, a power cut can take the writes of the batch until a later one is synced; a kill cannot. */
  | { readonly kind: "batch"; readonly requests: readonly Request[]; readonly isSynced: boolean }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "opened"; readonly warnings: readonly string[] }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "outcomes"; readonly outcomes: readonly Outcome[] };
