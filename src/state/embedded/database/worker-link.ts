import { once } from "node:events";
import type { MessagePort, Worker } from "node:worker_threads";
import type { Logger } from "../../../domain/call/ports.js";
import { ServiceError } from "../../../domain/call/service-error.js";
import type { LostRequest, Settlement } from "../../../domain/metering/ledger.js";
import { StateOpenError } from "../../../domain/service/state.js";
import { type Outcome, type Request, type RunBatch, sqliteCodes, storageFault, type Verbs } from "./sqlite.js";

/** Requests that may wait; more are rejected, because the disk does not keep up. */
const waitingMax = 10_000;
/** Keeps one transaction to some milliseconds of work. */
const batchMax = 1_000;

interface Waiting {
  readonly request: Request;
  readonly isWrite: boolean;
  /** Whether the caller waits for the sync. */
  readonly isSynced: boolean;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** A settlement without event and threshold, which only adds usage. */
export type UsageSettlement = Pick<
  Settlement,
  | "requestId"
  | "account"
  | "keyId"
  | "model"
  | "operation"
  | "promptTokens"
  | "completionTokens"
  | "cachedTokens"
  | "costNano"
>;

/** The fields of a UsageSettlement in the order in which they go to the worker. */
export type SettledUsage = readonly [
  requestId: string,
  account: string,
  keyId: string | null,
  model: string,
  operation: UsageSettlement["operation"],
  promptTokens: number,
  completionTokens: number,
  cachedTokens: number,
  costNano: number,
  nowMs: number,
  endedAtMs: number,
  /** Whether the file may have its row of a running request. */
  hasRow: boolean,
];

/** A settlement that waits for the next batch. */
interface WaitingUsage {
  readonly row: SettledUsage;
  resolve(isDuplicate: boolean): void;
  reject(error: Error): void;
}

type Call<T extends Verbs["reads"]> = <N extends keyof T>(
  verb: N,
  ...values: Parameters<T[N]>
) => Promise<ReturnType<T[N]>>;

/** Calls of verbs by name. Rejects with `storage_unavailable`, and with `conflict` for an id or secret that exists. */
export interface StoreLink<V extends Verbs> {
  readonly read: Call<V["reads"]>;
  /** Resolves after the commit: the write then survives a power cut. */
  readonly write: Call<V["writes"]>;
  /** Resolves after the commit: the write survives a kill, but a power cut only when a later one is synced. */
  readonly writeUnsynced: Call<V["writes"]>;
}

/**
 * The main thread's end of the store's worker. One batch is in flight at a time; requests that arrive meanwhile become
 * the next one, so batches grow with the load and with the latency of the disk. `StoreLink` gives its calls their types.
 */
export class WorkerLink {
  /** The worker's warnings about the file and its directory. */
  readonly openWarnings: readonly string[];
  readonly #worker: Worker;
  readonly #log: Logger;
  readonly #exited: Promise<void>;
  #waiting: Waiting[] = [];
  #waitingUsage: WaitingUsage[] = [];
  #startsSoon = false;
  #underWay: readonly Waiting[] = [];
  /** Why requests are rejected; null while the link is in use. */
  #refusal: string | null = null;
  #onIdle: () => void = () => {};
  /** Rows of running requests that the file does not have yet. */
  #carried = new Map<string, LostRequest>();
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
      log.error({ err: error }, "the store's thread has ended unexpectedly");
      this.#fail(error);
    });
    // After close() this is the usual end, and no requests are left to reject.
    worker.on("exit", () => this.#fail(new Error("the store's thread ended")));
  }

  /** Why the last write failed; null when it did not. */
  get writeFault(): string | null {
    return this.#writeFault;
  }

  read(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask({ verb, values }, false, false);
  }

  write(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask({ verb, values }, true, true);
  }

  writeUnsynced(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask({ verb, values }, true, false);
  }

  /** Like write("settle") for a settlement that only adds usage. Resolves with true if the request was settled before. */
  settleUsage(settlement: UsageSettlement, nowMs: number, endedAtMs: number, hasRow: boolean): Promise<boolean> {
    const { requestId, account, keyId, model, operation } = settlement;
    const { promptTokens, completionTokens, cachedTokens, costNano } = settlement;
    return new Promise((resolve, reject) => {
      if (this.#refusal !== null) return reject(unavailable(this.#refusal));
      if (this.#waitingUsage.length >= waitingMax) return reject(unavailable(`${waitingMax} settlements wait for it`));
      const amounts = [promptTokens, completionTokens, cachedTokens, costNano] as const;
      const row: SettledUsage = [requestId, account, keyId, model, operation, ...amounts, nowMs, endedAtMs, hasRow];
      this.#waitingUsage.push({ row, resolve, reject });
      this.#startSoon();
    });
  }

  /**
   * Writes the row of a running request with the next batch, unsynced and without a result. A row that cannot be written
   * is lost, which matters only if the process is killed before the settlement.
   */
  carry(row: LostRequest): void {
    this.#carried.set(row.requestId, row);
  }

  /** Drops a row that no batch has taken yet. False: there is none. */
  uncarry(requestId: string): boolean {
    return this.#carried.delete(requestId);
  }

  /** Starts a batch for what waits, unless one is under way. */
  nudge(): void {
    if (this.#refusal === null) this.#startBatch();
  }

  /** Resolves when all requests are done, the file is closed and the thread has ended. */
  async close(): Promise<void> {
    if (this.#refusal === null) {
      this.#startBatch();
      this.#refusal = "it is closed";
      if (this.#underWay.length > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
      this.#worker.postMessage({ kind: "close" } satisfies ToWorker);
    }
    await this.#exited;
  }

  #ask(request: Request, isWrite: boolean, isSynced: boolean): Promise<never> {
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
      this.nudge();
    });
  }

  #startBatch(): void {
    if (this.#underWay.length > 0) return;
    const next = this.#waiting.splice(0, batchMax);
    if (this.#waitingUsage.length > 0) next.push(settleAll(this.#waitingUsage.splice(0, batchMax)));
    if (this.#carried.size > 0) {
      next.unshift(this.#unawaited({ verb: "noteLive", values: [[...this.#carried.values()]] }));
      // A new map: V8 links the table of a cleared one to the next, which keeps the garbage of all later batches reachable.
      this.#carried = new Map();
    }
    this.#underWay = next;
    if (next.length === 0) this.#onIdle();
    else {
      const isSynced = next.some((waiting) => waiting.isSynced);
      const requests = next.map(({ request }) => request);
      this.#worker.postMessage({ kind: "batch", requests, isSynced } satisfies ToWorker);
    }
  }

  /** No caller waits for the result; a full disk is reported by the other writes. */
  #unawaited(request: Request): Waiting {
    const reject = (err: Error): void => {
      if (!(err instanceof ServiceError)) this.#log.error({ err }, "running requests cannot be recorded in the store");
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

  /** Logs one line when writes begin to fail and one when they succeed again. */
  #noteWrite(fault: string | null): void {
    if (fault === this.#writeFault) return;
    this.#writeFault = fault;
    if (fault === null) this.#log.info({}, "the store can be written again");
    else this.#log.error({ fault }, "the store cannot be written");
  }

  /** The thread has ended: no answers will come. */
  #fail(cause: Error): void {
    this.#refusal ??= "its thread has ended unexpectedly; restart the service";
    const left = [...this.#underWay, ...this.#waiting, ...this.#waitingUsage];
    this.#underWay = [];
    this.#waiting = [];
    this.#waitingUsage = [];
    for (const { reject } of left) reject(unavailable(this.#refusal, cause));
    this.#onIdle();
  }
}

/** One request for all of them, as text, which is cheaper to copy between the threads than an object for each. */
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

/** Messages are copied between the threads, so they contain plain values only. */
type ToWorker =
  /** Without a sync, a power cut can lose the writes of the batch until a later one is synced; a kill cannot. */
  | { readonly kind: "batch"; readonly requests: readonly Request[]; readonly isSynced: boolean }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "opened"; readonly warnings: readonly string[] }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "outcomes"; readonly outcomes: readonly Outcome[] };

/** Serves the link in the worker: runs batches one at a time until the link is closed. */
export function serveLink(port: MessagePort, run: RunBatch, close: () => void): void {
  port.on("message", (message: ToWorker) => {
    if (message.kind === "batch") {
      const outcomes = run(message.requests, message.isSynced);
      port.postMessage({ kind: "outcomes", outcomes } satisfies FromWorker);
    } else {
      close();
      port.close();
    }
  });
}
