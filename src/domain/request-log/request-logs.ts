import { errors } from "../../contract/errors.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import { type Clock, type Logger, pause } from "../call/ports.js";
import { checkAccountName } from "../call/principal.js";
import {
  checkInteger,
  type PageRequest,
  refuse,
  ServiceError,
  toPageToken,
  toStorePage,
} from "../call/service-error.js";
import {
  anyError,
  pageRecordsMax,
  parseRequestCursor,
  passes,
  type RequestFilter,
  type RequestLogEntry,
  type RequestLogStore,
  type RequestRecord,
} from "./request-log-store.js";

interface RequestLogsDeps {
  readonly store: RequestLogStore;
  readonly clock: Pick<Clock, "after">;
  /** Number of records that are kept; 0: the request log is off. */
  readonly keep: number;
  readonly keepsContent: boolean;
}

/** A filter as clients send it: an empty text matches any value. */
export interface RequestQuestion {
  readonly model: string;
  readonly apiKeyId: string;
  readonly account: string;
  readonly code: string;
  readonly fromMs: number | null;
  readonly toMs: number | null;
}

/** Interval at which a watcher reads new records. */
const watchEveryMs = 500;
/** Maximum number of concurrent watchers in this process. */
const watchersMax = 64;
/** Maximum number of earlier records that a watch may begin with. */
const recentMax = 1_000;

/** The request log as administrators read it. Rejects with ServiceError. */
export class RequestLogs {
  readonly #deps: RequestLogsDeps;
  #watchers = 0;

  constructor(deps: RequestLogsDeps) {
    this.#deps = deps;
  }

  get keep(): number {
    return this.#deps.keep;
  }

  get keepsContent(): boolean {
    return this.#deps.keepsContent;
  }

  /** Newest first; `nextPageToken` is empty on the last page. */
  async list(question: RequestQuestion & PageRequest, signal: AbortFlag) {
    const page = toStorePage(question, (text) => parseRequestCursor(text) !== null);
    const { records, next } = await this.#read(toFilter(question), page.limit, page.after, signal);
    return { records, nextPageToken: toPageToken(next) };
  }

  async get(id: string): Promise<RequestLogEntry> {
    const entry = await this.#deps.store.get(id);
    return entry ?? refuse("not_found", "id", "There is no such request in the request log.");
  }

  /**
   * Yields the `recent` newest matching records in the order of their arrival, perhaps none, then the records of requests
   * that end, until the signal aborts.
   */
  async *watch(
    question: RequestQuestion,
    recent: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly RequestRecord[]> {
    checkInteger(recent, "recent", 0, recentMax);
    const filter = toFilter(question);
    const { store, clock } = this.#deps;
    if (this.#watchers >= watchersMax) {
      throw new ServiceError("server_is_overloaded", `${watchersMax} clients watch the request log already.`);
    }
    this.#watchers += 1;
    try {
      let number = await store.newest();
      const { records: first } = recent === 0 ? { records: [] } : await this.#read(filter, recent, null, signal);
      const sent = new Set(first.map(({ id }) => id));
      yield first.toReversed();
      for (;;) {
        await pause(clock, watchEveryMs, signal);
        if (signal.aborted) throw errorOfEnd(signal.reason);
        const { records, last } = await store.appendedAfter(number, pageRecordsMax);
        number = last;
        const matching = records.filter((record) => passes(record, filter) && !sent.has(record.id));
        if (matching.length > 0) yield matching;
      }
    } finally {
      this.#watchers -= 1;
    }
  }

  /** Reads until the page is full, because the store examines a bounded number of records at a time. */
  async #read(filter: RequestFilter, limit: number, after: string | null, signal: AbortFlag) {
    const { store } = this.#deps;
    const records: RequestRecord[] = [];
    let next = after;
    do {
      if (signal.aborted) throw errorOfEnd(signal.reason);
      const page = await store.list({ filter, limit: limit - records.length, after: next });
      records.push(...page.records);
      next = page.next;
    } while (next !== null && records.length < limit);
    return { records, next };
  }
}

function toFilter({ model, apiKeyId, account, code, fromMs, toMs }: RequestQuestion): RequestFilter {
  if (code !== "" && code !== "ok" && code !== anyError && !Object.hasOwn(errors, code)) {
    refuse("invalid_value", "code", `'code' must be ok, ${anyError} for all errors, or the code of an error.`);
  }
  return {
    model: model || null,
    keyId: apiKeyId || null,
    account: account === "" ? null : checkAccountName(account),
    code: code || null,
    fromMs,
    toMs,
  };
}

/** Maximum records that one step of a trim removes, which takes the store some milliseconds. */
const trimMax = 500;
/** Pause between two steps, so that other writes come first. */
const trimEveryMs = 200;
/** Pause after a failed step. */
const trimRetryMs = 60_000;

interface TrimDeps extends Pick<RequestLogsDeps, "store" | "clock" | "keep"> {
  readonly log: Logger;
}

/**
 * Removes the records that exceed a lowered bound, or all of them if the request log was turned off, in small steps. Returns
 * the function that stops it.
 */
export function startTrim({ store, clock, keep, log }: TrimDeps): () => void {
  let isStopped = false;
  let cancelTimer = clock.after(trimEveryMs, () => void step());
  async function step(): Promise<void> {
    let nextMs: number | null = null;
    try {
      if ((await store.trim(keep, trimMax)) >= trimMax) nextMs = trimEveryMs;
    } catch (err) {
      log.warn({ err }, "old records of the request log could not be removed; retrying later");
      nextMs = trimRetryMs;
    }
    if (!isStopped && nextMs !== null) cancelTimer = clock.after(nextMs, () => void step());
  }
  return () => {
    isStopped = true;
    cancelTimer();
  };
}
