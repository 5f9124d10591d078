/** An event before it is kept: its bytes are made once and sent as they are, on every attempt (WH-12). */
export interface EventDraft {
  /** `evt_` and 32 hex digits, the same whenever the same event is drafted. */
  readonly id: string;
  readonly type: EventType;
  /** JSON. */
  readonly body: string;
}

export const eventTypes = ["request.completed", "request.failed", "usage.threshold_reached"] as const;

export type EventType = (typeof eventTypes)[number];

/** An event whose body holds a sum that only the store knows: it puts `prefix`, the number and `suffix` together. */
export interface EventAroundNumber {
  readonly id: string;
  readonly type: EventType;
  readonly prefix: string;
  readonly suffix: string;
}
