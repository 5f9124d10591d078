import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { inferenceOperations } from "../../contract/operations.js";
import type { CallCounts, CallFigures, DurationQuantiles } from "../../domain/call/observer.js";
import { bounds } from "./bounds.js";
import { Buckets } from "./buckets.js";
import { type CallMetrics, isRejection } from "./call-metrics.js";
import type { CallSeries, EngineSeries } from "./call-series.js";

/** Sums over all models, for people who look at the service as a whole. */
export function callFigures(calls: CallMetrics): CallFigures {
  const inference = () => calls.series().filter(({ operation }) => inferenceOperations.has(operation));
  return {
    counts: () => countsOf(inference(), calls.leaves),
    durations() {
      const all = inference();
      return [
        quantilesOf("request", answered(all)),
        quantilesOf(
          "time_to_first_token",
          ofEngines(all, bounds.firstToken, ({ firstToken }) => firstToken),
        ),
        quantilesOf(
          "queue",
          ofEngines(all, bounds.queue, ({ queue }) => queue),
        ),
      ];
    },
  };
}

function countsOf(all: readonly CallSeries[], leaves: ReadonlyMap<string, number>): CallCounts {
  const counts = { requests: 0, failed: 0, rejected: 0, clientLeft: 0, promptTokens: 0, completionTokens: 0 };
  for (const { durations, engine } of all) {
    for (const [code, { count }] of durations) {
      counts.requests += count;
      if (code === "ok") continue;
      if (isRejection(code)) counts.rejected += count;
      else if (isFailure(code)) counts.failed += count;
    }
    counts.promptTokens += engine?.promptTokens ?? 0;
    counts.completionTokens += engine?.completionTokens ?? 0;
  }
  // Whoever watches something leaves when it was seen enough.
  for (const [stage, count] of leaves) if (stage !== "watching") counts.clientLeft += count;
  return counts;
}

function isFailure(code: ErrorCode): boolean {
  return errorRow(code).http >= 500;
}

/** Those that were refused within a millisecond would hide how long an answer takes. */
function answered(all: readonly CallSeries[]): Buckets {
  const sum = new Buckets(bounds.duration);
  for (const { durations } of all) {
    const own = durations.get("ok");
    if (own !== undefined) sum.add(own);
  }
  return sum;
}

function ofEngines(
  all: readonly CallSeries[],
  boundsOf: readonly number[],
  pick: (engine: EngineSeries) => Buckets,
): Buckets {
  const sum = new Buckets(boundsOf);
  for (const { engine } of all) if (engine !== null) sum.add(pick(engine));
  return sum;
}

function quantilesOf(name: DurationQuantiles["name"], buckets: Buckets): DurationQuantiles {
  const ms = (share: number): number => buckets.quantile(share) * 1_000;
  return { name, count: buckets.count, p50Ms: ms(0.5), p95Ms: ms(0.95), p99Ms: ms(0.99) };
}
