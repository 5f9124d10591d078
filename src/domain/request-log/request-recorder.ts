import { inferenceNames } from "../../contract/operations.js";
import type { CallDetails, CallLine, CallRecorder, CallTimes, CallTranscript, ClientLabels } from "../call/observer.js";
import { type Clock, type Logger, pause } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { ContentTranscript } from "./content-transcript.js";
import type { RecordedTry, RequestLogEntry, RequestLogStore, RequestRecord } from "./request-log-store.js";

export interface RequestRecorderDeps {
  readonly store: Pick<RequestLogStore, "append">;
  readonly clock: Pick<Clock, "after">;
  readonly log: Logger;
  /** Replaces credentials in a text. */
  readonly redact: (text: string) => string;
  /** Number of records that the store keeps. */
  readonly keep: number;
  /** Whether prompts and answers are kept, too. */
  readonly keepsContent: boolean;
}

/** Maximum number of records that wait for the store; later ones are dropped. */
const waitingMax = 10_000;
/** Maximum characters of records that wait. */
const waitingCharsMax = 16 * 1024 * 1024;
/** Maximum records and characters of one append, which takes the store about a millisecond. */
const batchMax = 100;
const batchCharsMax = 512 * 1024;
/** Longest wait of a record for others of its batch. */
const batchEveryMs = 250;
/** Pause after a failed append. */
const retryMs = 1_000;
/** Minimum interval between log lines about dropped records. */
const warnEveryMs = 60_000;
/** Maximum time for the last appends when the service stops. */
const closeMs = 2_000;

interface Waiting {
  readonly entry: RequestLogEntry;
  readonly chars: number;
}

/**
 * Writes ended inference requests to the request log in batches, one at a time, without delaying requests. The number of
 * waiting records is bounded: while the store is slower than the requests, further records are dropped, counted and logged.
 */
export class RequestRecorder implements CallRecorder {
  readonly #deps: RequestRecorderDeps;
  #waiting: Waiting[] = [];
  #waitingChars = 0;
  #isWriting = false;
  #isClosed = false;
  #dropped = 0;
  #loggedDrops = 0;
  #mayWarn = true;
  #cancelTimer: (() => void) | null = null;
  #written: Promise<void> = Promise.resolve();

  constructor(deps: RequestRecorderDeps) {
    this.#deps = deps;
  }

  /** Records that were dropped since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  transcript(): CallTranscript | null {
    return this.#deps.keepsContent ? new ContentTranscript(this.#deps.redact) : null;
  }

  record(line: CallLine): void {
    const operation = inferenceNames.get(line.end.operation);
    if (operation === undefined) return;
    const record = toRecord(line, operation, this.#deps.redact);
    const content = line.end.details?.transcript?.content(line.error?.message ?? "") ?? null;
    const chars = charsOf({ record, content });
    if (this.#isClosed || this.#waiting.length >= waitingMax || this.#waitingChars + chars > waitingCharsMax) {
      this.#drop(1);
      return;
    }
    this.#waiting.push({ entry: { record, content }, chars });
    this.#waitingChars += chars;
    if (this.#isWriting) return;
    if (this.#waiting.length >= batchMax) this.#write();
    else this.#cancelTimer ??= this.#deps.clock.after(batchEveryMs, () => this.#write());
  }

  /** Writes the waiting records, and drops those that the store does not accept in time. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#write();
    await Promise.race([this.#written, pause(this.#deps.clock, closeMs)]);
    const left = this.#waiting.splice(0).length;
    if (left > 0) this.#drop(left);
  }

  #write(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    if (this.#isWriting) return;
    this.#isWriting = true;
    this.#written = this.#writeAll().finally(() => {
      this.#isWriting = false;
    });
  }

  async #writeAll(): Promise<void> {
    const { store, keep, clock, log } = this.#deps;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      try {
        await store.append(
          batch.map(({ entry }) => entry),
          keep,
        );
      } catch (err) {
        const isOutage = err instanceof ServiceError && err.code === "storage_unavailable";
        if (!isOutage || this.#isClosed) {
          log.warn({ err }, "records of the request log could not be written");
          this.#drop(batch.length);
          if (this.#isClosed) return;
          continue;
        }
        this.#putBack(batch);
        await pause(clock, retryMs);
      }
    }
  }

  #nextBatch(): readonly Waiting[] {
    let count = 0;
    let chars = 0;
    for (const { chars: own } of this.#waiting) {
      if (count > 0 && (count >= batchMax || chars + own > batchCharsMax)) break;
      count += 1;
      chars += own;
    }
    this.#waitingChars -= chars;
    return this.#waiting.splice(0, count);
  }

  #putBack(batch: readonly Waiting[]): void {
    this.#waiting.unshift(...batch);
    for (const { chars } of batch) this.#waitingChars += chars;
  }

  #drop(count: number): void {
    this.#dropped += count;
    if (!this.#mayWarn && !this.#isClosed) return;
    this.#mayWarn = false;
    this.#deps.clock.after(warnEveryMs, () => {
      this.#mayWarn = true;
    });
    const dropped = this.#dropped - this.#loggedDrops;
    this.#loggedDrops = this.#dropped;
    this.#deps.log.warn({ dropped }, "records of the request log were dropped: the store does not accept them in time");
  }
}

/** Estimated characters of a record without its content, and the maximum of a client's labels. */
const metadataChars = 1_024;
const labelsChars = 12_000;

function charsOf({ record, content }: RequestLogEntry): number {
  const chars = metadataChars + (record.labels === null ? 0 : labelsChars);
  return content === null
    ? chars
    : content.answers.reduce((sum, text) => sum + text.length, chars + content.request.length);
}

function toRecord(line: CallLine, operation: string, redact: (text: string) => string): RequestRecord {
  const { end, principal, caller, traceId, labels } = line;
  const { times, route, details, usage } = end;
  const { promptTokens, completionTokens, cachedTokens } = details?.settled ?? usage ?? noTokens;
  const { clientRequestId } = caller;
  return {
    id: end.requestId,
    account: principal.account,
    keyId: principal.keyId,
    operation,
    protocol: end.transport,
    model: end.model,
    fallbackModel: route?.fallbackModel ?? null,
    code: end.code,
    isStream: details?.isStream ?? false,
    receivedAtMs: end.receivedAtMs,
    durationMs: rounded(end.durationMs),
    admitMs: rounded(times.admitMs),
    queueMs: rounded(times.queueMs),
    firstTokenMs: times.firstTokenMs === null ? null : rounded(times.firstTokenMs),
    promptTokens,
    completionTokens,
    cachedTokens,
    costNano: details?.settled?.costNano ?? 0,
    attempts: route?.attempts ?? 0,
    tries: details === null ? [] : triesOf(details, times, end.durationMs),
    address: caller.address,
    clientRequestId: clientRequestId === undefined ? null : redact(clientRequestId),
    traceId: traceId ?? null,
    labels: labels === null ? null : redactedLabels(labels, redact),
  };
}

const noTokens = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

function triesOf({ tries }: CallDetails, times: CallTimes, durationMs: number): RecordedTry[] {
  const { engineBeganMs, engineMs } = times;
  const engineEndedMs = engineBeganMs === null || engineMs === null ? durationMs : engineBeganMs + engineMs;
  return tries.map(({ deployment, model, beganAtMs, failedAtMs, code }) => {
    const beganMs = times.sinceArrival(beganAtMs);
    const endedMs = failedAtMs === null ? engineEndedMs : times.sinceArrival(failedAtMs);
    return { deployment, model, beganMs: rounded(beganMs), durationMs: rounded(Math.max(0, endedMs - beganMs)), code };
  });
}

/** Redacts all labels as one JSON text, because `redact` recognizes some secrets by the names of their fields. */
function redactedLabels(labels: ClientLabels, redact: (text: string) => string): ClientLabels {
  return JSON.parse(redact(JSON.stringify(labels))) as ClientLabels;
}

/** Rounds to microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
