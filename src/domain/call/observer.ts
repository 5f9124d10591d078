import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { Caller, EndReason } from "./call-context.js";
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

/**
 * When a call went from one part to the next, in milliseconds of the monotonic clock. Numbers that are not known yet are
 * NaN inside: a field that is always a number costs no allocation.
 */
export class CallTimes {
  readonly #arrivedAtMs: number;
  #engineBeganAtMs = Number.NaN;
  #engineEndedAtMs = Number.NaN;
  #admitMs = 0;
  #queueMs = 0;
  #firstAtMs = Number.NaN;
  #firstTokens = 0;
  #isReadAlong = false;

  constructor(arrivedAtMs: number) {
    this.#arrivedAtMs = arrivedAtMs;
  }

  /** Its limits are decided, which took so long. */
  admitted(ms: number): void {
    this.#admitMs = ms;
  }

  /** It has a slot; a batch gets several, and the first one counts. `queueMs` is the whole wait so far. */
  engineBegan(atMs: number, queueMs: number): void {
    if (Number.isNaN(this.#engineBeganAtMs)) this.#engineBeganAtMs = atMs;
    this.#queueMs = queueMs;
  }

  /** First content, after which `tokens` tokens are known. Told once. */
  firstContent(atMs: number, tokens: number, isReadAlong: boolean): void {
    this.#firstAtMs = atMs;
    this.#firstTokens = tokens;
    this.#isReadAlong = isReadAlong;
  }

  /** The engine has said its last word; the first report counts. */
  engineEnded(atMs: number): void {
    if (Number.isNaN(this.#engineEndedAtMs)) this.#engineEndedAtMs = atMs;
  }

  sinceArrival(atMs: number): number {
    return atMs - this.#arrivedAtMs;
  }

  /** How long the decision of its limits took; 0 where none was asked for. */
  get admitMs(): number {
    return this.#admitMs;
  }

  /** How long it waited for a slot; 0 without one. */
  get queueMs(): number {
    return this.#queueMs;
  }

  /** From its arrival to its slot; null: it got none. */
  get engineBeganMs(): number | null {
    return orNull(this.#engineBeganAtMs - this.#arrivedAtMs);
  }

  /** From its slot to the engine's last word; null: no engine ran. */
  get engineMs(): number | null {
    return orNull(this.#engineEndedAtMs - this.#engineBeganAtMs);
  }

  /** From its arrival to the first content of a stream; null: nobody read along, or there was no content. */
  get firstTokenMs(): number | null {
    return this.#isReadAlong ? orNull(this.#firstAtMs - this.#arrivedAtMs) : null;
  }

  /** Mean time between two of `tokens` tokens; null where the engine told of all of them at once. */
  tokenGapMs(tokens: number): number | null {
    const later = tokens - this.#firstTokens;
    return later > 0 ? orNull((this.#engineEndedAtMs - this.#firstAtMs) / later) : null;
  }
}

function orNull(ms: number): number | null {
  return Number.isNaN(ms) ? null : ms;
}

/** Sampling options of a request, without its content. */
export interface AskedOptions {
  readonly maxTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  readonly stop: readonly string[];
  readonly seed?: bigint;
}

/** What a trace says of a call beyond its end. Kept for traces only. */
export class CallDetails {
  readonly finishReasons: string[] = [];
  #options: AskedOptions | null = null;
  #responseId: string | null = null;
  #choices = 1;
  #isStream = false;

  asked(options: AskedOptions | undefined, choices: number, responseId: string): void {
    this.#options = options ?? null;
    this.#choices = choices;
    this.#responseId = responseId;
  }

  streams(): void {
    this.#isStream = true;
  }

  /** Null where nothing is generated. */
  get options(): AskedOptions | null {
    return this.#options;
  }

  /** Of the whole request. */
  get choices(): number {
    return this.#choices;
  }

  /** `chatcmpl-…`, `cmpl-…`; null where answers have no id. */
  get responseId(): string | null {
    return this.#responseId;
  }

  get isStream(): boolean {
    return this.#isStream;
  }
}

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

/** The caller's span, by the `traceparent` header of W3C Trace Context. */
export interface ParentSpan {
  /** 32 hex digits, not all 0. */
  readonly traceId: string;
  /** 16 hex digits, not all 0. */
  readonly spanId: string;
  /** Bit 0: the caller records its trace. */
  readonly flags: number;
}

/** Later versions may have more fields at the end; `ff` is no version. */
const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Null when there is none or it is not well formed: then the trace begins here. */
export function parseTraceparent(header: string | undefined): ParentSpan | null {
  if (header === undefined) return null;
  const [, version, traceId, spanId, flags, more] = form.exec(header) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  if (version === "00" && more !== undefined) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
