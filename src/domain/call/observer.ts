import type { Message } from "@bufbuild/protobuf";
import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { AnswerRoute, Caller, EndReason } from "./call-context.js";
import type { Stage, UsageTotal } from "./live-requests.js";
import type { Principal } from "./principal.js";
import type { LimitKind } from "./rate-limits.js";
import type { ServiceError } from "./service-error.js";

/** Outcome of a call. It names no key and holds no content (SEC-18). */
export interface CallEnd {
  readonly requestId: string;
  readonly operation: Operation;
  readonly transport: Caller["transport"];
  /** Id of a model in the catalog; null if the call named none or an unknown one. */
  readonly model: string | null;
  readonly why: EndReason;
  readonly code: ErrorCode | "ok";
  /** Stage at its end; `opening` if it was rejected before a context existed. */
  readonly stage: Stage | "opening";
  /** The client disconnected before the end. */
  readonly clientLeft: boolean;
  /** Null when no engine ran. */
  readonly usage: UsageTotal | null;
  /** Wall-clock time. */
  readonly receivedAtMs: number;
  readonly durationMs: number;
  readonly times: CallTimes;
  /** Route of the last try; null when no deployment was tried. */
  readonly route: AnswerRoute | null;
  /** The unmodified header of W3C Trace Context. */
  readonly traceparent: string | undefined;
  readonly details: CallDetails | null;
}

/** Receives counters and measurements. Its methods take less than a microsecond and never throw. */
export interface Observer {
  /** Called once per call, rejected or not. */
  callEnded(end: CallEnd): void;
  /** A limit or a budget rejected a request. */
  limitHit(which: LimitKind): void;
  /** The usage of a request could be written neither to the store nor to the spool. */
  usageLost(): void;
  /**
   * A request completed that was admitted with an estimate of its prompt tokens, not a count by a tokenizer. Both numbers
   * are above 0.
   */
  promptEstimated(model: string, estimatedTokens: number, settledTokens: number): void;
}

/** Creates spans. */
export interface CallTracer {
  /** Call it at the end of a call. Returns the trace id, 32 hex digits. Never throws. */
  trace(end: CallEnd): string;
}

/**
 * Timestamps of a call's phases in milliseconds of the monotonic clock. Unknown ones are NaN: a field that always holds
 * a number costs no allocation.
 */
export class CallTimes {
  /** Duration of the admission; 0 without one. */
  admitMs = 0;
  /** Wait for a slot; 0 without one. */
  queueMs = 0;
  readonly #arrivedAtMs: number;
  #engineBeganAtMs = Number.NaN;
  #engineEndedAtMs = Number.NaN;
  #firstAtMs = Number.NaN;
  #firstTokens = 0;
  #isReadAlong = false;

  constructor(arrivedAtMs: number) {
    this.#arrivedAtMs = arrivedAtMs;
  }

  /**
   * Records when a call got its first slot; a call with several prompts gets several. `queueMs` is the whole wait so far.
   */
  engineBegan(atMs: number, queueMs: number): void {
    if (Number.isNaN(this.#engineBeganAtMs)) this.#engineBeganAtMs = atMs;
    this.queueMs = queueMs;
  }

  /** Records the first content and the number of tokens that have arrived with it. Called once. */
  firstContent(atMs: number, tokens: number, isReadAlong: boolean): void {
    this.#firstAtMs = atMs;
    this.#firstTokens = tokens;
    this.#isReadAlong = isReadAlong;
  }

  /** Records that the engine has finished; only the first call counts. */
  engineEnded(atMs: number): void {
    if (Number.isNaN(this.#engineEndedAtMs)) this.#engineEndedAtMs = atMs;
  }

  sinceArrival(atMs: number): number {
    return atMs - this.#arrivedAtMs;
  }

  /** Time from arrival to the slot; null without one. */
  get engineBeganMs(): number | null {
    return orNull(this.#engineBeganAtMs - this.#arrivedAtMs);
  }

  /** Time from the slot to the end of the engine; null if no engine ran. */
  get engineMs(): number | null {
    return orNull(this.#engineEndedAtMs - this.#engineBeganAtMs);
  }

  /** Time from arrival to the first content of a stream; null without a stream or content. */
  get firstTokenMs(): number | null {
    return this.#isReadAlong ? orNull(this.#firstAtMs - this.#arrivedAtMs) : null;
  }

  /** Mean time between two consecutive tokens of an answer of `tokens` tokens; null when they all arrived together. */
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
  readonly temperature?: number;
  readonly topP?: number;
  readonly stop: readonly string[];
  readonly seed?: bigint;
}

/** Labels that a client puts on its request for the operator. Validated, so each has a bound. */
export interface ClientLabels {
  readonly user: string | undefined;
  readonly safetyIdentifier?: string | undefined;
  readonly promptCacheKey?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** An ended call with its caller. */
export interface CallLine {
  readonly end: CallEnd;
  readonly principal: Principal;
  readonly caller: Caller;
  readonly error: ServiceError | null;
  readonly traceId: string | undefined;
  readonly labels: ClientLabels | null;
}

/** Keeps ended calls in the request log. */
export interface CallRecorder {
  /** Never throws and never blocks. */
  record(line: CallLine): void;
  /** Creates the copy of a new call's content; null when only metadata is kept. */
  transcript(): CallTranscript | null;
}

/** One try in a deployment. Times are milliseconds of the monotonic clock. */
export interface CallTry {
  readonly deployment: string;
  /** The model of the deployment. */
  readonly model: string;
  readonly beganAtMs: number;
  /** Null until it has failed. */
  failedAtMs: number | null;
  code: ErrorCode | "ok";
}

/** Tokens and cost of a request as settled. */
export interface SettledUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
}

/** Prompt and answer of a request, kept only with `requests.keep_content`. Without credentials. */
export interface RecordedContent {
  /** The request as JSON; empty if its body could not be read. */
  readonly request: string;
  /** The generated text of each choice, with its tool calls; empty for embeddings and rankings. */
  readonly answers: readonly string[];
  /** Message of the error that the client received; empty without one. */
  readonly errorMessage: string;
  /** Whether something was longer than the bound and left out. */
  readonly isCut: boolean;
}

/** Copies prompt and answer of a call for the request log. */
export interface CallTranscript {
  /** Stores the message of the request. */
  asked(request: Message): void;
  /** Wraps the reader of an answer, so that its events are also copied into the transcript. */
  copying<R extends AnswerReader>(reader: R): R;
  /** The content so far. `errorMessage`: of the error that the client received; empty without one. */
  content(errorMessage: string): RecordedContent;
}

/** Receives the events of an answer: a GenerationReader. */
export interface AnswerReader {
  readonly sink: (choice: number, event: never) => Promise<void> | undefined;
  readonly restart: ((first: number, count: number) => void) | null;
}

/** Maximum number of tries of a call that are described; further tries are only counted. */
const describedTriesMax = 32;

/** Data for traces and the request log in addition to the outcome. */
export class CallDetails {
  readonly finishReasons: string[] = [];
  /** Null when nothing is generated. */
  options: AskedOptions | null = null;
  /** Number of choices of the whole request. */
  choices = 1;
  /** `chatcmpl-…` or `cmpl-…`; null for answers without an id. */
  responseId: string | null = null;
  isStream = false;
  readonly tries: CallTry[] = [];
  /** Null until the settlement. */
  settled: SettledUsage | null = null;
  /** Null unless the request log keeps content. */
  readonly transcript: CallTranscript | null;

  constructor(transcript: CallTranscript | null = null) {
    this.transcript = transcript;
  }

  tryBegan(deployment: string, model: string, beganAtMs: number): void {
    if (this.tries.length >= describedTriesMax) return;
    this.tries.push({ deployment, model, beganAtMs, failedAtMs: null, code: "ok" });
  }

  /** Records the failure of the last running try in a deployment. */
  tryFailed(deployment: string, code: ErrorCode, failedAtMs: number): void {
    const failed = this.tries.findLast((one) => one.deployment === deployment && one.failedAtMs === null);
    if (failed !== undefined) Object.assign(failed, { failedAtMs, code });
  }

  asked(options: AskedOptions | undefined, choices: number, responseId: string): void {
    this.options = options ?? null;
    this.choices = choices;
    this.responseId = responseId;
  }

  streams(): void {
    this.isStream = true;
  }
}

/** Inference requests of this process since its start. */
export interface CallCounts {
  readonly requests: number;
  /** Failed because of the service or an engine. */
  readonly failed: number;
  /** Rejected for authentication, a limit or load. */
  readonly rejected: number;
  readonly clientLeft: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Quantiles of a duration, as exact as its histogram. */
export interface DurationQuantiles {
  readonly name: "request" | "time_to_first_token" | "queue";
  readonly count: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
}

/** The durations measured up to one point in time; only requests that an engine answered count. */
export interface DurationSums {
  /** Quantiles of the durations measured after the earlier sums `before`; null: since the start. */
  since(before: DurationSums | null): readonly DurationQuantiles[];
}

/** Counters and durations of inference in this process. */
export interface CallFigures {
  counts(): CallCounts;
  durations(): DurationSums;
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

/** Later versions may append fields; version `ff` is invalid. */
const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Null when absent or malformed: a new trace begins. */
export function parseTraceparent(header: string | undefined): ParentSpan | null {
  if (header === undefined) return null;
  const [, version, traceId, spanId, flags, more] = form.exec(header) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  if (version === "00" && more !== undefined) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
