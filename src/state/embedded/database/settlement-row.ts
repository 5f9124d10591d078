import type { Operation } from "../../../contract/operations.js";
import type { EventDraft, Period, Threshold, UsageSums } from "../../../domain/events/events.js";
import type { Settlement } from "../../../domain/metering/ledger.js";

/** A settlement to write. */
export interface NewSettlement {
  readonly settlement: Settlement;
  readonly nowMs: number;
  /** End of the request, which decides the hour, day and month of its usage. */
  readonly endedAtMs: number;
  /** Whether the database may contain the row of the running request. */
  readonly hasRow: boolean;
  /** Whether the sums of its account and key are needed afterwards. */
  readonly wantsSums: boolean;
}

/** A settlement that waits for the next batch. */
export interface WaitingSettlement extends NewSettlement {
  resolve(row: SettledRow | null): void;
  reject(error: unknown): void;
}

/** The fields of a settlement that are written, in the order in which they go to the worker as JSON. */
export type SettlementRow = readonly [
  requestId: string,
  account: string,
  keyId: string | null,
  model: string,
  operation: Operation,
  promptTokens: number,
  completionTokens: number,
  cachedTokens: number,
  costNano: number,
  nowMs: number,
  endedAtMs: number,
  hasRow: boolean,
  /** Null for most settlements, which have no event, threshold or budget. */
  effects: SettlementEffects | null,
];

type SettlementEffects = readonly [
  event: EventDraft | null,
  /** Index in the list `thresholds` of the batch; -1: no thresholds. */
  thresholds: number,
  wantsSums: boolean,
];

/** A threshold in JSON, which has no bigint. */
export type ThresholdRow = Omit<Threshold, "limit"> & { readonly limit: string };

export interface SettlementBatch {
  readonly rows: readonly SettlementRow[];
  /** Lists of thresholds, each only once: most settlements of an account share a list. */
  readonly thresholds: readonly (readonly ThresholdRow[])[];
}

/** Result of a batch. Positions are indexes of its rows. */
export interface SettledBatch {
  /** Positions of the settlements whose requests were settled before. */
  readonly duplicates: readonly number[];
  readonly crossed: readonly (readonly [position: number, thresholdIds: readonly string[]])[];
  /** Sums after the batch, of the accounts and keys of rows with `wantsSums`. */
  readonly sums: readonly MovedSum[];
  /** Whether the batch wrote events whose deliveries are not created yet. */
  readonly hasDue: boolean;
}

/** A sum that a batch has changed, with its new value. */
export interface MovedSum {
  readonly kind: "account" | "key";
  readonly id: string;
  readonly period: Period;
  readonly sums: UsageSums;
}

/** Result of one settlement. It is null instead if the batch had no duplicates, reached no thresholds and returned no sums. */
export interface SettledRow {
  readonly duplicate: boolean;
  readonly crossed: readonly string[];
  /** Sums that the batch changed. All settlements of a batch share one list. */
  readonly sums: readonly MovedSum[];
  /** Whether the batch wrote events whose deliveries are not created yet; true only for the first settlement of the batch. */
  readonly hasDue: boolean;
}
