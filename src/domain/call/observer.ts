import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { Caller, EndReason } from "./call-context.js";
import type { CallDetails } from "./call-details.js";
import type { CallTimes } from "./call-times.js";
import type { Stage } from "./live-requests.js";
import type { LimitKind } from "./rate-limits.js";
import type { UsageTotal } from "./usage-tally.js";

/** How a call went. It names no key and holds no content (SEC-18), but for what `details` says of itself. */
export interface CallEnd {
  readonly requestId: string;
  readonly operation: Operation;
  readonly transport: Caller["transport"];
  /** A model of the catalog; null: the call was for none, or for one that there is not. */
  readonly model: string | null;
  readonly why: EndReason;
  readonly code: ErrorCode | "ok";
  /** Where it stood at its end; `opening`: it was not let in. */
  readonly stage: Stage | "opening";
  /** The client was gone before the end. */
  readonly clientLeft: boolean;
  /** Null when no engine was asked. */
  readonly usage: UsageTotal | null;
  /** Wall-clock time. */
  readonly receivedAtMs: number;
  readonly durationMs: number;
  readonly times: CallTimes;
  /** The header of W3C Trace Context as it came. */
  readonly traceparent: string | undefined;
  readonly details: CallDetails | null;
}

/** Told of what is counted and measured. Its methods take less than a microsecond and never throw. */
export interface Observer {
  /** Once per call, whether it was let in or not. */
  callEnded(end: CallEnd): void;
  /** A limit or a budget refused a request. */
  limitHit(which: LimitKind): void;
  /** The usage of a request is neither in the store nor in the spool. */
  usageLost(): void;
}

/** Makes spans of calls. */
export interface CallTracer {
  /** To be called at the end of a call. The answer is the id of its trace, 32 hex digits. Never throws. */
  trace(end: CallEnd): string;
}
