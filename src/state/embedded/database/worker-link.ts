import { once } from "node:events";
import type { MessagePort, Worker } from "node:worker_threads";
import type { Logger } from "../../../domain/call/ports.js";
import { ServiceError } from "../../../domain/call/service-error.js";
import type { LostRequest, Settlement } from "../../../domain/metering/ledger.js";
import { StateOpenError } from "../../../domain/service/state.js";
import type {
  NewSettlement,
  SettledBatch,
  SettledRow,
  SettlementBatch,
  SettlementRow,
  WaitingSettlement,
} from "./settlement-row.js";
import { errorOf, type Outcome, type Request, type RunBatch, storageFault, unavailable, type Verbs } from "./sqlite.js";

/** Maximum number of waiting requests. More are rejected, because the disk is too slow. */
const waitingMax = 10_000;
/** Target duration of a batch: with longer batches and thousands of connections, the threads wait for each other (E-36). */
const batchAimMs = 10;
/** Minimum of the size of a batch, separately for requests and for settlements. */
const batchMin = 32;
const batchMax = 1_000;

interface Waiting {
  readonly request: Request;
  readonly isWrite: boolean;
  /** Whether the caller waits until the write is synced to the disk. */
  readonly isSynced: boolean;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

type Call<T extends Verbs["reads"]> = <N extends keyof T>(
  verb: N,
  ...values: Parameters<T[N]>
) => Promise<ReturnType<T[N]>>;

/** Calls of verbs by name. Rejects with `storage_unavailable`, and with `conflict` for an id or secret that exists. */
export interface StoreLink<V extends Verbs> {
  readonly read: Call<V["reads"]>;
  /**
   * Calls a verb that examines many rows and takes milliseconds. One runs at a time, and between two of them other requests
   * run, so that a settlement waits for at most two of them, however many are called.
   */
  readonly scan: Call<V["reads"]>;
  /** Calls a verb that writes. Resolves after the synced commit: the write then survives a power cut. */
  readonly write: Call<V["writes"]>;
  /**
   * Calls a verb that writes. Resolves after the commit, which is not synced: the write survives a kill of the process, and
   * after the next synced write also a power cut.
   */
  readonly writeUnsynced: Call<V["writes"]>;
}

/**
 * Connects the main thread to the worker thread of the store. One batch is in progress at a time; requests that arrive
 * during it form the next batch, so batches grow with the load and with the latency of the disk. `StoreLink` gives its
 * calls their types.
 */
export class WorkerLink {
  /** The worker's warnings about the file and its directory. */
  readonly openWarnings: readonly string[];
  /** Reason for which writes are rejected; null: writes are accepted. */
  writeRefusal: string | null = null;
  readonly #worker: Worker;
  readonly #log: Logger;
  readonly #exited: Promise<void>;
  #waiting: Waiting[] = [];
  #scans: Waiting[] = [];
  /** Whether the last batch was a scan: then other requests come first. */
  #wasScan = false;
  #settlements: WaitingSettlement[] = [];
  #startsSoon = false;
  #underWay: readonly Waiting[] = [];
  /** Number of requests and settlements in the batch in progress, and the maximum number of each in the next batch. */
  #batchSize = 0;
  #batchLimit = batchMax;
  /** Reason for which all requests are rejected; null while the link is open. */
  #refusal: string | null = null;
  #onIdle: () => void = () => {};
  /** Rows of running requests that are not in the database yet. */
  #carried = new Map<string, LostRequest>();
  #writeFault: string | null = null;

  /** Waits until the worker has opened the database. Rejects with StateOpenError if it could not be opened. */
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
      if (message.kind !== "outcomes") return;
      this.#limitBatch(message.tookMs);
      this.#finishBatch(message.outcomes);
    });
    worker.on("error", (error) => {
      log.error({ err: error }, "the store's thread has ended unexpectedly");
      this.#fail(error);
    });
    // After close() the thread ends normally, and there are no requests left to reject.
    worker.on("exit", () => this.#fail(new Error("the store's thread ended")));
  }

  /** Reason for which the last write failed or all writes are rejected; null when writes succeed. */
  get writeFault(): string | null {
    return this.writeRefusal ?? this.#writeFault;
  }

  read(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask(this.#waiting, { verb, values }, false, false);
  }

  scan(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask(this.#scans, { verb, values }, false, false);
  }

  write(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask(this.#waiting, { verb, values }, true, true);
  }

  writeUnsynced(verb: string, ...values: readonly unknown[]): Promise<never> {
    return this.#ask(this.#waiting, { verb, values }, true, false);
  }

  /** Settles a request with the next batch. Resolves after the commit, usually with null: see SettledRow. */
  settle(added: NewSettlement): Promise<SettledRow | null> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal ?? this.writeRefusal;
      if (refusal !== null) return reject(unavailable(refusal));
      if (this.#settlements.length >= waitingMax) return reject(unavailable(`${waitingMax} settlements wait for it`));
      this.#settlements.push(waitingFor(added, resolve, reject));
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

  /** Starts a batch with the waiting requests, unless a batch is in progress. */
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

  #ask(queue: Waiting[], request: Request, isWrite: boolean, isSynced: boolean): Promise<never> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal ?? (isWrite ? this.writeRefusal : null);
      if (refusal !== null) return reject(unavailable(refusal));
      if (queue.length >= waitingMax) return reject(unavailable(`${waitingMax} requests wait for it`));
      queue.push({ request, isWrite, isSynced, resolve, reject });
      this.#startBatch();
    });
  }

  /** Starts a batch at the end of this turn of the event loop, so that it includes other requests that end in the same turn. */
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
    const next = this.#takeScan() ?? this.#takeOthers();
    this.#underWay = next;
    if (next.length === 0) this.#onIdle();
    else {
      const isSynced = next.some((waiting) => waiting.isSynced);
      const requests = next.map(({ request }) => request);
      this.#worker.postMessage({ kind: "batch", requests, isSynced } satisfies ToWorker);
    }
  }

  /** The next scan, as a batch of its own; null: there is none, or other requests wait since the last one. */
  #takeScan(): Waiting[] | null {
    const others = this.#waiting.length + this.#settlements.length + this.#carried.size;
    const scan = this.#wasScan && others > 0 ? undefined : this.#scans.shift();
    this.#wasScan = scan !== undefined;
    if (scan === undefined) return null;
    this.#batchSize = 0;
    return [scan];
  }

  #takeOthers(): Waiting[] {
    const next = this.#waiting.splice(0, this.#batchLimit);
    const settlements = this.#settlements.splice(0, this.#batchLimit);
    this.#batchSize = Math.max(next.length, settlements.length);
    if (settlements.length > 0) next.push(settleAll(settlements));
    if (this.#carried.size > 0) {
      next.unshift(this.#unawaited({ verb: "noteLive", values: [[...this.#carried.values()]] }));
      // A new map: V8 links the table of a cleared one to the next, which keeps the garbage of all later batches reachable.
      this.#carried = new Map();
    }
    return next;
  }

  #limitBatch(tookMs: number): void {
    const size = this.#batchSize;
    if (tookMs > batchAimMs && size > batchMin) {
      this.#batchLimit = Math.max(batchMin, Math.floor((size * batchAimMs) / tookMs));
    } else if (size >= this.#batchLimit) {
      this.#batchLimit = Math.min(batchMax, this.#batchLimit * 2);
    }
  }

  /** A request for whose result no caller waits. A full disk is not logged here, because other writes report it. */
  #unawaited(request: Request): Waiting {
    const reject = (err: Error): void => {
      if (!(err instanceof ServiceError)) this.#log.error({ err }, "running requests cannot be recorded in the store");
    };
    return { request, isWrite: true, isSynced: false, resolve: () => {}, reject };
  }

  #finishBatch(outcomes: readonly Outcome[]): void {
    const done = this.#underWay;
    this.#underWay = [];
    done.forEach(({ request, resolve, reject, isWrite }, position) => {
      const outcome = outcomes[position] ?? { ok: false, message: "the store gave no answer", sqlite: null };
      if (isWrite) this.#noteWrite(request.verb, outcome.ok ? null : storageFault(outcome.sqlite));
      if (outcome.ok) resolve(outcome.value);
      else reject(errorOf(outcome));
    });
    this.#startBatch();
  }

  /**
   * Logs one line when writes begin to fail and one when they succeed again. Only the write of a probe counts as success,
   * because other writes may have changed nothing.
   */
  #noteWrite(verb: string, fault: string | null): void {
    if (fault === this.#writeFault) return;
    if (fault === null && verb !== "probe") return void this.write("probe").catch(() => {});
    this.#writeFault = fault;
    if (fault === null) this.#log.info({}, "the store can be written again");
    else this.#log.error({ fault }, "the store cannot be written");
  }

  /** Rejects all requests after the thread has ended, because no answers will come. */
  #fail(cause: Error): void {
    this.#refusal ??= "its thread has ended unexpectedly; restart the service";
    const left = [...this.#underWay, ...this.#waiting, ...this.#scans, ...this.#settlements];
    this.#underWay = [];
    this.#waiting = [];
    this.#scans = [];
    this.#settlements = [];
    for (const { reject } of left) reject(unavailable(this.#refusal, cause));
    this.#onIdle();
  }
}

/** Written without a spread, which would be slower than all the rest that a caller does with a settlement. */
export function waitingFor(
  { settlement, nowMs, endedAtMs, hasRow, wantsSums }: NewSettlement,
  resolve: WaitingSettlement["resolve"],
  reject: WaitingSettlement["reject"],
): WaitingSettlement {
  return { settlement, nowMs, endedAtMs, hasRow, wantsSums, resolve, reject };
}

/** Combines settlements into one request as JSON text, which is cheaper to copy between threads than one object for each. */
export function settleAll(settlements: readonly WaitingSettlement[]): Waiting {
  const lists = new Map<Settlement["thresholds"], number>();
  const rows = settlements.map((waiting) => rowOf(waiting, lists));
  const thresholds = Array.from(lists.keys(), (list) =>
    list.map((each) => ({ ...each, limit: each.limit.toString() })),
  );
  return {
    request: { verb: "settleAll", values: [JSON.stringify({ rows, thresholds } satisfies SettlementBatch)] },
    isWrite: true,
    isSynced: true,
    resolve({ duplicates, crossed, sums, hasDue }: SettledBatch) {
      if (duplicates.length + crossed.length + sums.length === 0 && !hasDue) {
        for (const { resolve } of settlements) resolve(null);
        return;
      }
      const idsAt = new Map(crossed);
      settlements.forEach(({ resolve }, position) => {
        const duplicate = duplicates.includes(position);
        resolve({ duplicate, crossed: idsAt.get(position) ?? [], sums, hasDue: hasDue && position === 0 });
      });
    },
    reject(error) {
      for (const { reject } of settlements) reject(error);
    },
  };
}

function rowOf(
  { settlement, nowMs, endedAtMs, hasRow, wantsSums }: WaitingSettlement,
  lists: Map<Settlement["thresholds"], number>,
): SettlementRow {
  const { requestId, account, keyId, model, operation, event, thresholds } = settlement;
  const { promptTokens, completionTokens, cachedTokens, costNano } = settlement;
  let list = -1;
  if (thresholds.length > 0) {
    list = lists.get(thresholds) ?? lists.size;
    lists.set(thresholds, list);
  }
  const effects = event === null && list < 0 && !wantsSums ? null : ([event, list, wantsSums] as const);
  const amounts = [promptTokens, completionTokens, cachedTokens, costNano] as const;
  return [requestId, account, keyId, model, operation, ...amounts, nowMs, endedAtMs, hasRow, effects];
}

/** Messages are copied between the threads, so they contain plain values only. */
type ToWorker =
  /** Without a sync, a power cut can lose the writes of the batch until a later one is synced; a kill cannot. */
  | { readonly kind: "batch"; readonly requests: readonly Request[]; readonly isSynced: boolean }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "opened"; readonly warnings: readonly string[] }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "outcomes"; readonly outcomes: readonly Outcome[]; readonly tookMs: number };

/** Serves the link in the worker: runs batches one at a time until the link is closed. */
export function serveLink(port: MessagePort, run: RunBatch, close: () => void): void {
  port.on("message", (message: ToWorker) => {
    if (message.kind === "batch") {
      const startedMs = performance.now();
      const outcomes = run(message.requests, message.isSynced);
      port.postMessage({ kind: "outcomes", outcomes, tookMs: performance.now() - startedMs } satisfies FromWorker);
    } else {
      close();
      port.close();
    }
  });
}
