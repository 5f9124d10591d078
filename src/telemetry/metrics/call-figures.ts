import { errorRow } from "../../contract/errors.js";
import { inferenceOperations } from "../../contract/operations.js";
import type { CallCounts, CallFigures, DurationQuantiles, DurationSums } from "../../domain/call/observer.js";
import { type BucketData, Buckets, bounds, type CallMetrics, type CallSeries, isRejection } from "./call-metrics.js";

/** Counts and durations of this process, in a form that can be sent to another process. */
interface MeasuredFigures extends CallFigures {
  durations(): MeasuredDurations;
}

/** Sums of counts and durations over all models. */
export function callFigures(calls: CallMetrics): MeasuredFigures {
  const inference = () => calls.series().filter(({ operation }) => inferenceOperations.has(operation));
  return {
    counts: () => countsOf(inference(), calls.leaves),
    durations() {
      const all = inference();
      return new MeasuredDurations(
        // Only successful requests: rejections within a millisecond would hide how long an answer takes.
        sumOf(all, bounds.duration, ({ durations }) => durations.get("ok")),
        sumOf(all, bounds.firstToken, ({ engine }) => engine?.firstToken),
        sumOf(all, bounds.queue, ({ engine }) => engine?.queue),
      );
    },
  };
}

type DurationName = DurationQuantiles["name"];

const durationNames: readonly DurationName[] = ["request", "time_to_first_token", "queue"];
const durationBounds: Readonly<Record<DurationName, readonly number[]>> = {
  request: bounds.duration,
  time_to_first_token: bounds.firstToken,
  queue: bounds.queue,
};

class MeasuredDurations implements DurationSums {
  readonly #parts: Readonly<Record<DurationName, Buckets>>;

  constructor(request: Buckets, firstToken: Buckets, queue: Buckets) {
    this.#parts = { request, time_to_first_token: firstToken, queue };
  }

  since(before: DurationSums | null): readonly DurationQuantiles[] {
    const earlier = before instanceof MeasuredDurations ? before.#parts : null;
    return durationNames.map((name) => {
      const own = this.#parts[name];
      return quantilesOf(name, earlier === null ? own : own.minus(earlier[name]));
    });
  }

  toData(): FigureData["durations"] {
    const { request, time_to_first_token: first, queue } = this.#parts;
    return { request: request.toData(), time_to_first_token: first.toData(), queue: queue.toData() };
  }
}

function countsOf(all: readonly CallSeries[], leaves: ReadonlyMap<string, number>): CallCounts {
  const counts = { requests: 0, failed: 0, rejected: 0, clientLeft: 0, promptTokens: 0, completionTokens: 0 };
  for (const { durations, engine } of all) {
    for (const [code, { count }] of durations) {
      counts.requests += count;
      if (code === "ok") continue;
      if (isRejection(code)) counts.rejected += count;
      else if (errorRow(code).http >= 500) counts.failed += count;
    }
    counts.promptTokens += engine?.promptTokens ?? 0;
    counts.completionTokens += engine?.completionTokens ?? 0;
  }
  // A watching stream never ends by itself, so it always ends with a disconnect.
  for (const [stage, count] of leaves) if (stage !== "watching") counts.clientLeft += count;
  return counts;
}

function sumOf(
  all: readonly CallSeries[],
  boundsOf: readonly number[],
  pick: (series: CallSeries) => Buckets | undefined,
): Buckets {
  const sum = new Buckets(boundsOf);
  for (const series of all) {
    const own = pick(series);
    if (own !== undefined) sum.add(own);
  }
  return sum;
}

function quantilesOf(name: DurationQuantiles["name"], buckets: Buckets): DurationQuantiles {
  const ms = (share: number): number => buckets.quantile(share) * 1_000;
  return { name, count: buckets.count, p50Ms: ms(0.5), p95Ms: ms(0.95), p99Ms: ms(0.99) };
}

/** The figures of one worker, as JSON can hold them. */
export interface FigureData {
  readonly counts: CallCounts;
  readonly costNano: number;
  readonly durations: Readonly<Record<DurationName, BucketData>>;
}

export function toFigureData(calls: MeasuredFigures, costNano: number): FigureData {
  return { counts: calls.counts(), costNano, durations: calls.durations().toData() };
}

/** Key of the sum of workers that have ended. No process has this id. */
const ended = 0;

/** Sums of the figures of all workers, including the last figures of workers that have ended. */
export class SummedFigures implements CallFigures {
  /** Last figures by the id of the worker's process. */
  readonly #read = new Map<number, FigureData>();

  read(worker: number, figures: FigureData): void {
    this.#read.set(worker, figures);
  }

  ended(worker: number): void {
    const last = this.#read.get(worker);
    if (last === undefined) return;
    const others = [...this.#read].filter(([id]) => id !== worker && id !== ended);
    for (const [id] of others) this.#read.delete(id);
    const sum = { counts: this.counts(), costNano: this.costNano, durations: this.#sums().toData() };
    this.#read.clear();
    this.#read.set(ended, sum);
    for (const [id, figures] of others) this.#read.set(id, figures);
  }

  get costNano(): number {
    return [...this.#read.values()].reduce((sum, { costNano }) => sum + costNano, 0);
  }

  counts(): CallCounts {
    const sums = { requests: 0, failed: 0, rejected: 0, clientLeft: 0, promptTokens: 0, completionTokens: 0 };
    for (const { counts } of this.#read.values()) {
      for (const name of Object.keys(sums) as (keyof CallCounts)[]) sums[name] += counts[name];
    }
    return sums;
  }

  durations(): DurationSums {
    return this.#sums();
  }

  #sums(): MeasuredDurations {
    const [request, first, queue] = durationNames.map((name) => {
      const sum = new Buckets(durationBounds[name]);
      for (const { durations } of this.#read.values()) sum.addData(durations[name]);
      return sum;
    }) as [Buckets, Buckets, Buckets];
    return new MeasuredDurations(request, first, queue);
  }
}
