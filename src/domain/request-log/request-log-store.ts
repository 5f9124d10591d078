import type { ErrorCode } from "../../contract/errors.js";
import type { Caller } from "../call/call-context.js";
import type { ClientLabels, RecordedContent } from "../call/observer.js";

/** One try of a request in a deployment. */
export interface RecordedTry {
  readonly deployment: string;
  /** The model of the deployment: the requested one or a fallback. */
  readonly model: string;
  /** Time from the request's arrival to the slot in the deployment. */
  readonly beganMs: number;
  readonly durationMs: number;
  readonly code: ErrorCode | "ok";
}

/** The metadata of one ended inference request. It holds no header and no credential. */
export interface RequestRecord {
  /** `req_…`, the id that the client received. */
  readonly id: string;
  readonly account: string;
  /** Null: a request of the administrator. */
  readonly keyId: string | null;
  /** `chat`, `completions`, `embeddings` or `rerank`. */
  readonly operation: string;
  readonly protocol: Caller["transport"];
  /** The requested model; null if it is not in the catalog or was not read. */
  readonly model: string | null;
  /** The model that answered instead of the requested one; null: none. */
  readonly fallbackModel: string | null;
  readonly code: ErrorCode | "ok";
  readonly isStream: boolean;
  /** Wall-clock time of the headers' arrival. */
  readonly receivedAtMs: number;
  readonly durationMs: number;
  /** Duration of the admission by limits and budgets. */
  readonly admitMs: number;
  /** Wait for slots, in all tries together. */
  readonly queueMs: number;
  /** Time from the arrival to the first content of a stream; null without one. */
  readonly firstTokenMs: number | null;
  /** Tokens and cost as settled: their sums equal the recorded usage. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
  /** Number of tries in deployments. `tries` describes only the first ones. */
  readonly attempts: number;
  readonly tries: readonly RecordedTry[];
  /** Address of the client. */
  readonly address: string;
  readonly clientRequestId: string | null;
  readonly traceId: string | null;
  readonly labels: ClientLabels | null;
}

export interface RequestLogEntry {
  readonly record: RequestRecord;
  /** Null: only metadata was kept. */
  readonly content: RecordedContent | null;
}

/** Conditions that a record must meet; null: any. */
export interface RequestFilter {
  /** The requested model. */
  readonly model: string | null;
  readonly keyId: string | null;
  readonly account: string | null;
  /** `ok`, the code of an error, or `error` for all errors. */
  readonly code: string | null;
  /** Earliest arrival. */
  readonly fromMs: number | null;
  /** End of the arrivals, exclusive. */
  readonly toMs: number | null;
}

/** The columns that a filter compares. */
export type FilteredFields = Pick<RequestRecord, "model" | "keyId" | "account" | "code" | "receivedAtMs">;

/** Whether a record passes a filter. */
export function passes(record: FilteredFields, { model, keyId, account, code, fromMs, toMs }: RequestFilter): boolean {
  return (
    (model === null || record.model === model) &&
    (keyId === null || record.keyId === keyId) &&
    (account === null || record.account === account) &&
    (code === null || (code === anyError ? record.code !== "ok" : record.code === code)) &&
    (fromMs === null || record.receivedAtMs >= fromMs) &&
    (toMs === null || record.receivedAtMs < toMs)
  );
}

/** Value of `RequestFilter.code` for all errors. */
export const anyError = "error";

/** Maximum number of records in a page, and in an append. */
export const pageRecordsMax = 1_000;

export interface RequestLogQuery {
  readonly filter: RequestFilter;
  readonly limit: number;
  /** `next` of the page before; null for the first. */
  readonly after: string | null;
}

export interface RequestLogPage {
  readonly records: readonly RequestRecord[];
  /** Cursor of the next page; null for the last. A page may be shorter than its limit, or empty, and still have one. */
  readonly next: string | null;
}

/** Port of the stored request log. All methods reject with `storage_unavailable`. */
export interface RequestLogStore {
  /** Appends entries, skips those with a known id, and removes the oldest beyond `keep`. Takes at most `pageRecordsMax`. */
  append(entries: readonly RequestLogEntry[], keep: number): Promise<void>;
  /** Null if the entry does not exist or was removed. */
  get(id: string): Promise<RequestLogEntry | null>;
  /** Newest arrival first. Examines a bounded number of records, so that a rare match does not delay other calls. */
  list(query: RequestLogQuery): Promise<RequestLogPage>;
  /**
   * Records appended after the one with the number `after`, in the order of their numbers, and the number of the last one.
   */
  appendedAfter(
    after: number,
    limit: number,
  ): Promise<{ readonly records: readonly RequestRecord[]; readonly last: number }>;
  /** Number of the record that was appended last; 0 without one. */
  newest(): Promise<number>;
  /** Removes at most `max` of the oldest records beyond `keep`, and returns their number. */
  trim(keep: number, max: number): Promise<number>;
}

/** Position of a record in the order of lists: newest arrival first, then by id. */
export interface RequestCursor {
  readonly atMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(req_[0-9a-z_]{1,64})$/;

export function requestCursorOf({ atMs, id }: RequestCursor): string {
  return `${atMs}:${id}`;
}

/** Null for an invalid cursor. */
export function parseRequestCursor(cursor: string): RequestCursor | null {
  const [, atMs, id] = cursorForm.exec(cursor) ?? [];
  return atMs === undefined || id === undefined ? null : { atMs: Number(atMs), id };
}
