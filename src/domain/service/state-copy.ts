import type { AuditRecord } from "../access/audit.js";
import type { ApiKeyRecord } from "../access/key-store.js";
import type { Drain } from "../catalog/drained-deployments.js";
import type { EventType, Period, Threshold, UsageScope, UsageSums } from "../events/events.js";
import type { StoredLimits } from "../metering/limit-book.js";
import type { UsageRow } from "../metering/usage-store.js";
import type { RequestLogEntry } from "../request-log/request-log-store.js";
import type { StoredResponse } from "../responses/response-store.js";
import type { StoredUpstream } from "../upstreams/upstream-store.js";
import type { Attempt, DeliveryFailure, DeliveryState } from "../webhooks/delivery.js";
import type { KeptEndpoint } from "../webhooks/endpoint-store.js";

/** An internal setting of the service, such as the hash of the administrator's password. */
export interface CopiedSetting {
  readonly name: string;
  readonly value: string;
  readonly version: number;
}

export interface CopiedModel {
  readonly id: string;
  readonly firstSeenAtMs: number;
}

/** An event whose deliveries are not created yet. */
export interface CopiedEvent {
  readonly id: string;
  readonly account: string;
  readonly type: EventType;
  readonly atMs: number;
  /** Endpoints that were enabled and subscribed when it was written. */
  readonly endpointIds: readonly string[];
  /** JSON. */
  readonly body: string;
}

export interface CopiedDelivery {
  readonly id: string;
  readonly account: string;
  readonly eventId: string;
  readonly eventType: EventType;
  readonly endpointId: string;
  readonly isEndpointEnabled: boolean;
  /**
   * A delivery whose attempt is in progress has the state from before the attempt, because claims (locks on running
   * attempts) are not copied.
   */
  readonly state: Exclude<DeliveryState, "delivery_attempted">;
  readonly reason: DeliveryFailure | null;
  readonly createdAtMs: number;
  /** Due time of the next attempt; null if the delivery has ended. */
  readonly dueAtMs: number | null;
  /** Null while the delivery has not ended. */
  readonly endedAtMs: number | null;
  readonly attemptsMade: number;
  readonly retriesUsed: number;
  readonly isManual: boolean;
  readonly by: string;
  readonly isSingle: boolean;
  readonly replayId: string | null;
  readonly isPurged: boolean;
  /** The last 20, oldest first. */
  readonly attempts: readonly Attempt[];
  /** JSON of the event; empty if purged. */
  readonly body: string;
  /** Number of deliveries of the event that are not purged and share its body. 1 or fewer: the body is not shared. */
  readonly sharers: number;
  /** Whether it is the first of the deliveries that share the body. */
  readonly isFirstSharer: boolean;
}

/** Sums of an account or key in one day or month. */
export interface CopiedPeriodSum {
  readonly account: string;
  readonly scope: UsageScope;
  readonly period: Period;
  readonly sums: UsageSums;
}

/** A value of a threshold that was reported in a period. */
export interface FiredThreshold {
  readonly threshold: Pick<Threshold, "id" | "account" | "apiKeyId">;
  /** Decimal. */
  readonly value: string;
  readonly period: Period;
}

/** A record of the request log with its number, which rises in the order of the appends. */
export interface NumberedRequest extends RequestLogEntry {
  readonly number: number;
}

/** The records of each kind that a copy of the state has. */
export interface CopiedRecords {
  settings: CopiedSetting;
  api_keys: ApiKeyRecord;
  limits: StoredLimits;
  thresholds: Threshold;
  upstreams: StoredUpstream;
  drains: Drain;
  models_seen: CopiedModel;
  endpoints: KeptEndpoint;
  /** In the order in which they were written. */
  events: CopiedEvent;
  /** In the order of creation. */
  deliveries: CopiedDelivery;
  /** By account, start, key and model. */
  usage_hours: UsageRow;
  usage_days: UsageRow;
  period_sums: CopiedPeriodSum;
  fired_thresholds: FiredThreshold;
  audit: AuditRecord;
  responses: StoredResponse;
  request_log: NumberedRequest;
}

export type CopiedKind = keyof CopiedRecords;

/** In the order of the copy. Sessions, running requests, claims and windows of limits are not copied. */
export const copiedKinds: readonly CopiedKind[] = [
  ...(["settings", "api_keys", "limits", "thresholds", "upstreams", "drains", "models_seen"] as const),
  ...(["endpoints", "events", "deliveries"] as const),
  ...(["usage_hours", "usage_days", "period_sums", "fired_thresholds"] as const),
  ...(["audit", "responses", "request_log"] as const),
];

/** A consistent state that does not change while it is read. */
export interface StateSource {
  /** Identifies the store; the same in all of its backups. */
  readonly id: string;
  /** A known text encrypted with the master key under the name `secrets.canary`, to check that a key is the right one. */
  readonly canary: string;
  /** Requests that were running. They are not copied, so their usage is lost unless the service settles them first. */
  readonly runningRequests: number;
  /** All records of a kind, read in bounded batches. Throws when the source is damaged. */
  records<K extends CopiedKind>(kind: K): Iterable<CopiedRecords[K]>;
  close(): void;
}

/** Result of the comparison of one kind of records. */
export interface KindDifference {
  /** Entries that the target lacks, or has with another value. */
  readonly differing: number;
  /** Entries that only the target has. */
  readonly surplus: number;
}

/** A store that a state is copied into. All methods reject with StateOpenError, which names the cause and the fix. */
export interface StateTarget {
  /** Problems of the store that do not prevent a copy, each with its remedy. */
  readonly warnings: readonly string[];
  /** Makes the target equal to the source. Returns the number of records of each kind. */
  copy(source: StateSource): Promise<ReadonlyMap<CopiedKind, number>>;
  /** Compares the target with the source, without changes. */
  compare(source: StateSource): Promise<ReadonlyMap<CopiedKind, KindDifference & { readonly records: number }>>;
  close(): Promise<void>;
}
