/** Inference requests of this process, since its start. */
export interface CallCounts {
  readonly requests: number;
  /** Failed for a reason of the service. */
  readonly failed: number;
  /** Turned away for who sent them, for a limit or for load. */
  readonly rejected: number;
  readonly clientLeft: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Quantiles of a duration, as exact as it was counted. */
export interface DurationQuantiles {
  readonly name: "request" | "time_to_first_token" | "queue";
  readonly count: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
}

/** What was counted and measured of inference in this process. */
export interface CallFigures {
  counts(): CallCounts;
  /** Of requests that an engine has answered. */
  durations(): readonly DurationQuantiles[];
}
