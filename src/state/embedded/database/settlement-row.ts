import type { Operation } from "../../../contract/operations.js";
import type { EventDraft, Period, Threshold, UsageSums } from "../../../domain/events/events.js";
import type { Settlement } from "../../../domain/metering/ledger.js";

/** A settlement to write. */
export interface NewSettlement {
  readonly settlement: Settlement;
  readonly nowMs: number;
  /** Decides its hour, day and month. */
  readonly endedAtMs: number;
  /** Whether the file may have its row of a running request. */
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
  /** Null for most: without event, threshold and budget. */
  effects: SettlementEffects | null,
];

type SettlementEffects = readonly [
  event: EventDraft | null,
  /** Index in the thresholds of the batch; -1: none. */
  thresholds: number,
  wantsSums: boolean,
];

/** A threshold in JSON, which has no bigint. */
export type ThresholdRow = Omit<Threshold, "limit"> & { readonly limit: string };

export interface SettlementBatch {
  readonly rows: readonly SettlementRow[];
  /** Each list once: most settlements of an account share one. */
  readonly thresholds: readonly (readonly ThresholdRow[])[];
}

/** Result of a batch. Positions are those of its rows. */
export interface SettledBatch {
  /** Those that were settled before. */
  readonly duplicates: readonly number[];
  readonly crossed: readonly (readonly [position: number, thresholdIds: readonly string[]])[];
  /** Of the accounts and keys of rows with `wantsSums`, after the batch. */
  readonly sums: readonly MovedSum[];
  /** Events wait for their deliveries. */
  readonly hasDue: boolean;
}

/** A sum that a batch has changed, with its new value. */
export interface MovedSum {
  readonly kind: "account" | "key";
  readonly id: string;
  readonly period: Period;
  readonly sums: UsageSums;
}

/** Result of one settlement. Null instead if all of its batch were settled once, with nothing crossed and no sums. */
export interface SettledRow {
  readonly duplicate: boolean;
  readonly crossed: readonly string[];
  /** The same list for all settlements of a batch. */
  readonly sums: readonly MovedSum[];
  /** Events of the batch wait for their deliveries; set for its first settlement only. */
  readonly hasDue: boolean;
}
