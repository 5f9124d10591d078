import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { CallCounts, CallFigures, DurationQuantiles, DurationSums } from "../call/observer.js";
import type { Clock } from "../call/ports.js";

/** Width and number of the complete parts of each range. All ranges together keep at most 327 readings of about 1 KB each. */
export const historyRanges = {
  hour: { widthMs: 60_000, parts: 60 },
  day: { widthMs: 900_000, parts: 96 },
  week: { widthMs: 3_600_000, parts: 168 },
} as const;

export type HistoryRange = keyof typeof historyRanges;

const rangeNames = Object.keys(historyRanges) as HistoryRange[];

interface StatusHistoryDeps {
  readonly clock: Pick<Clock, "now" | "after">;
  readonly calls: CallFigures;
  /** Cost of this process's requests in nano-dollars. */
  readonly chargedNano: () => number;
}

interface Counts extends CallCounts {
  readonly costNano: number;
}

/** All counters at one moment. A part of the history is the difference of two. */
interface Reading {
  readonly atMs: number;
  readonly counts: Counts;
  readonly durations: DurationSums;
}

/** Figures of the time between two readings. */
export interface HistoryPart {
  readonly startMs: number;
  readonly endMs: number;
  readonly counts: Counts;
  readonly durations: readonly DurationQuantiles[];
}

export interface History {
  /** Rising; the last part is incomplete and ends now. */
  readonly parts: readonly HistoryPart[];
  readonly total: HistoryPart;
}

/** Requests, tokens, cost and latency of this process since its start, in memory: read once a minute, and on demand. */
export class StatusHistory {
  readonly #deps: StatusHistoryDeps;
  /** Readings of each range, oldest first. The first reading is the start of the oldest part. */
  readonly #readings: Readonly<Record<HistoryRange, Reading[]>>;
  #cancelTimer: () => void = () => {};

  /** Create it at the start of the process. */
  constructor(deps: StatusHistoryDeps) {
    this.#deps = deps;
    const first = this.#read();
    this.#readings = { hour: [first], day: [first], week: [first] };
    this.#schedule();
  }

  of(range: HistoryRange): History {
    const readings = this.#readings[range];
    const now = this.#read();
    const [first = now] = readings;
    const ends = [...readings.slice(1), now];
    return {
      parts: ends.map((end, index) => partBetween(readings[index] ?? first, end)),
      total: partBetween(first, now),
    };
  }

  close(): void {
    this.#cancelTimer();
  }

  /** Schedules the next reading for the next full minute. */
  #schedule(): void {
    const { clock } = this.#deps;
    const { widthMs } = historyRanges.hour;
    this.#cancelTimer = clock.after(widthMs - (clock.now() % widthMs), () => {
      this.#keep();
      this.#schedule();
    });
  }

  /** Adds a reading to each range in which a part has ended. A step of the wall clock makes a part longer, or removes it. */
  #keep(): void {
    const reading = this.#read();
    for (const range of rangeNames) {
      const { widthMs, parts } = historyRanges[range];
      const readings = this.#readings[range];
      const last = readings.at(-1);
      if (last !== undefined && Math.floor(last.atMs / widthMs) === Math.floor(reading.atMs / widthMs)) continue;
      readings.push(reading);
      const sinceMs = reading.atMs - (parts + 1) * widthMs;
      while (readings.length > parts + 1 || (readings[0]?.atMs ?? sinceMs) < sinceMs) readings.shift();
    }
  }

  #read(): Reading {
    const { clock, calls, chargedNano } = this.#deps;
    return {
      atMs: clock.now(),
      counts: { ...calls.counts(), costNano: chargedNano() },
      durations: calls.durations(),
    };
  }
}

function partBetween(start: Reading, end: Reading): HistoryPart {
  const since = (name: keyof Counts): number => end.counts[name] - start.counts[name];
  return {
    startMs: start.atMs,
    endMs: end.atMs,
    counts: {
      requests: since("requests"),
      failed: since("failed"),
      rejected: since("rejected"),
      clientLeft: since("clientLeft"),
      promptTokens: since("promptTokens"),
      completionTokens: since("completionTokens"),
      costNano: since("costNano"),
    },
    durations: end.durations.since(start.durations),
  };
}

/** Converts a part of the history to the fields of a HistoryPoint message. */
export function pointFields({ startMs, endMs, counts, durations }: HistoryPart) {
  return {
    startTime: timestampFromMs(startMs),
    endTime: timestampFromMs(endMs),
    counters: counterFields(counts),
    latencies: latencyFields(durations),
  };
}

/** Converts counts to the fields of a Counters message. */
export function counterFields({ requests, failed, rejected, clientLeft, ...sums }: Counts) {
  return {
    requests: BigInt(requests),
    failed: BigInt(failed),
    rejected: BigInt(rejected),
    clientLeft: BigInt(clientLeft),
    promptTokens: BigInt(sums.promptTokens),
    completionTokens: BigInt(sums.completionTokens),
    costNanoDollars: BigInt(sums.costNano),
  };
}

/** Converts quantiles to the fields of Latency messages. */
export function latencyFields(durations: readonly DurationQuantiles[]) {
  return durations.map(({ count, ...latency }) => ({ ...latency, count: BigInt(count) }));
}
