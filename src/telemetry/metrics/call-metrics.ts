import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { inferenceOperations, type Operation } from "../../contract/operations.js";
import type { CallEnd, Observer } from "../../domain/call/observer.js";
import type { LimitKind } from "../../domain/call/rate-limits.js";

/** Number of models with counters and gauges of their own; further ones share the series of the model `other`. */
const modelsMax = 1_000;
/** A histogram takes some 25 times the space of a counter, so fewer models have their own. */
const histogramModelsDefault = 20;
export const otherModel = "other";
/** Label of inference with an unknown model: names that clients invent create no series. */
const unknownModel = "unknown";
/** Labels that stand for no single model. */
const shared: ReadonlySet<string> = new Set(["", unknownModel, otherModel]);

/**
 * Counts calls. A call costs a few look-ups by names that exist already, and no allocation; the samples of metrics are
 * created when the page is rendered.
 */
export class CallMetrics implements Observer {
  /** Rejected calls by error code. */
  readonly rejections = new Map<string, number>();
  /** Rejections by a limit, by the kind of the limit. */
  readonly limitHits = new Map<string, number>();
  /** Calls whose client disconnected, by stage. */
  readonly leaves = new Map<string, number>();
  usagesLost = 0;
  /** Settled over estimated prompt tokens, by the model's label. */
  readonly estimateRatios = new Map<string, Buckets>();
  /** Series by the model's label, then by operation. */
  readonly #byModel = new Map<string, Map<Operation, CallSeries>>();
  /** Labels of the models that were used, in the order of their first use. */
  readonly #models = new Set<string>();
  readonly #histogramModels = new Set<string>();
  readonly #histogramModelsMax: number;

  /** `histogramModels`: number of models with histograms of their own. */
  constructor(histogramModels = histogramModelsDefault) {
    this.#histogramModelsMax = histogramModels;
  }

  callEnded(end: CallEnd): void {
    this.#seriesOf(end).add(end);
    if (end.code !== "ok" && isRejection(end.code)) increase(this.rejections, end.code);
    if (end.clientLeft) increase(this.leaves, end.stage);
  }

  limitHit(which: LimitKind): void {
    increase(this.limitHits, which);
  }

  usageLost(): void {
    this.usagesLost += 1;
  }

  promptEstimated(model: string, estimatedTokens: number, settledTokens: number): void {
    const label = this.labelOf(model);
    const ratios = this.estimateRatios.get(label) ?? new Buckets(bounds.estimateRatio);
    this.estimateRatios.set(label, ratios);
    ratios.observe(settledTokens / estimatedTokens);
  }

  series(): readonly CallSeries[] {
    return [...this.#byModel.values()].flatMap((byOperation) => [...byOperation.values()]);
  }

  /** The label of a model. The first models that are used keep their names permanently. */
  labelOf(model: string): string {
    if (this.#models.has(model) || shared.has(model)) return model;
    if (this.#models.size >= modelsMax) return otherModel;
    this.#models.add(model);
    if (this.#histogramModels.size < this.#histogramModelsMax) this.#histogramModels.add(model);
    return model;
  }

  /** Whether the model has a label of its own, which its first call gives it. */
  hasLabel(model: string): boolean {
    return this.#models.has(model);
  }

  /** Label of a model in histograms, from its label in counters. Fewer models have one of their own; the others share one. */
  histogramLabelOf(label: string): string {
    return this.#histogramModels.has(label) || shared.has(label) ? label : otherModel;
  }

  #seriesOf({ model, operation }: CallEnd): CallSeries {
    const name = model ?? (inferenceOperations.has(operation) ? unknownModel : "");
    return this.#byModel.get(name)?.get(operation) ?? this.#newSeries(this.labelOf(name), operation);
  }

  #newSeries(model: string, operation: Operation): CallSeries {
    const byOperation = this.#byModel.get(model) ?? new Map<Operation, CallSeries>();
    this.#byModel.set(model, byOperation);
    const series = byOperation.get(operation) ?? new CallSeries(operation, model);
    byOperation.set(operation, series);
    return series;
  }
}

/** Whether a call with this error was rejected for authentication, a limit or load. */
export function isRejection(code: ErrorCode): boolean {
  const { http } = errorRow(code);
  return http === 401 || http === 403 || http === 429 || http === 503;
}

function increase(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** Durations and tokens of the engine in the calls of one operation and model. */
class EngineSeries {
  readonly firstToken = new Buckets(bounds.firstToken);
  readonly tokenGap = new Buckets(bounds.tokenGap);
  readonly queue = new Buckets(bounds.queue);
  readonly overhead = new Buckets(bounds.overhead);
  promptTokens = 0;
  completionTokens = 0;
  cachedTokens = 0;
  reasoningTokens = 0;

  add({ times, durationMs, usage }: CallEnd): void {
    const { engineMs, queueMs, firstTokenMs } = times;
    if (engineMs !== null) {
      this.queue.observe(queueMs / 1_000);
      this.overhead.observe(Math.max(0, durationMs - queueMs - engineMs) / 1_000);
    }
    if (firstTokenMs !== null) this.firstToken.observe(firstTokenMs / 1_000);
    if (usage === null) return;
    const tokenGapMs = times.tokenGapMs(usage.completionTokens);
    if (tokenGapMs !== null) this.tokenGap.observe(tokenGapMs / 1_000);
    this.promptTokens += usage.promptTokens;
    this.completionTokens += usage.completionTokens;
    this.cachedTokens += usage.cachedTokens;
    this.reasoningTokens += usage.reasoningTokens;
  }
}

/** Durations of the calls of one operation and model, by outcome. */
export class CallSeries {
  readonly operation: Operation;
  /** Label of the model. */
  readonly model: string;
  readonly durations = new Map<ErrorCode | "ok", Buckets>();
  /** Null while no call of the series has reached an engine. */
  engine: EngineSeries | null = null;

  constructor(operation: Operation, model: string) {
    this.operation = operation;
    this.model = model;
  }

  add(end: CallEnd): void {
    let durations = this.durations.get(end.code);
    if (durations === undefined) {
      durations = new Buckets(bounds.duration);
      this.durations.set(end.code, durations);
    }
    durations.observe(end.durationMs / 1_000);
    if (end.usage === null) return;
    this.engine ??= new EngineSeries();
    this.engine.add(end);
  }
}

/** Counts of buckets, without the bounds. */
export interface BucketData {
  readonly counts: readonly number[];
  readonly sum: number;
}

/**
 * Seconds, or other numbers, counted in buckets. Observing one takes some ten nanoseconds: a prom-client histogram takes fifty times as
 * long, because it builds a key of its labels for each value.
 */
export class Buckets {
  readonly #bounds: readonly number[];
  /** One per bound, and one for values above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` ascend; a value is counted at the first bound that it does not exceed. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(seconds: number): void {
    const bounds = this.#bounds;
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (seconds <= (bounds[middle] ?? 0)) high = middle;
      else low = middle + 1;
    }
    this.#counts[low] = (this.#counts[low] ?? 0) + 1;
    this.#sum += seconds;
  }

  get sum(): number {
    return this.#sum;
  }

  get count(): number {
    return this.#counts.reduce((count, own) => count + own, 0);
  }

  /** Adds the counts of other buckets with the same bounds. */
  add(other: Buckets): void {
    for (const [i, count] of other.#counts.entries()) this.#counts[i] = (this.#counts[i] ?? 0) + count;
    this.#sum += other.#sum;
  }

  /** The counts, one per bound and one above all bounds, and the sum, as JSON can hold them. */
  toData(): BucketData {
    return { counts: [...this.#counts], sum: this.#sum };
  }

  /** Adds counts that `toData` returned for the same bounds. */
  addData({ counts, sum }: BucketData): void {
    for (const [i, count] of counts.entries()) this.#counts[i] = (this.#counts[i] ?? 0) + count;
    this.#sum += sum;
  }

  /** Returns buckets with the same bounds and no counts. */
  empty(): Buckets {
    return new Buckets(this.#bounds);
  }

  /** The counts since an earlier copy of these buckets. */
  minus(earlier: Buckets): Buckets {
    const rest = new Buckets(this.#bounds);
    for (const [i, count] of this.#counts.entries()) rest.#counts[i] = count - (earlier.#counts[i] ?? 0);
    rest.#sum = this.#sum - earlier.#sum;
    return rest;
  }

  /** For each of `bounds`, a subset of its own bounds: the number of values up to it. */
  upTo(bounds: readonly number[]): number[] {
    const wanted = new Set(bounds);
    const counts: number[] = [];
    let count = 0;
    for (const [i, bound] of this.#bounds.entries()) {
      count += this.#counts[i] ?? 0;
      if (wanted.has(bound)) counts.push(count);
    }
    return counts;
  }

  /**
   * The value that `share` of all values do not exceed, assuming that they are spread evenly inside their bucket; 0
   * without values. Values above all bounds count as the highest bound.
   */
  quantile(share: number): number {
    const wanted = share * this.count;
    let below = 0;
    let low = 0;
    for (const [i, high] of this.#bounds.entries()) {
      const own = this.#counts[i] ?? 0;
      if (own > 0 && below + own >= wanted) return low + ((wanted - below) / own) * (high - low);
      below += own;
      low = high;
    }
    return wanted === 0 ? 0 : low;
  }
}

/*
 * Bounds of histograms, in seconds. Two metrics of the same duration share one histogram: its bounds include those of
 * OpenTelemetry's conventions, and further ones for slow engines on CPUs.
 */

/** Bounds of `gen_ai.server.request.duration`: 0.01 to 81.92, each twice the one before. */
const genAiDuration = Array.from({ length: 14 }, (_, i) => 2 ** i / 100);
/** Bounds of `gen_ai.server.time_to_first_token`, and higher ones. */
const firstToken = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
/** Bounds of `gen_ai.server.time_per_output_token`, and higher ones. */
const genAiTokenGap = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];

export const bounds = {
  duration: [0.001, 0.0025, 0.005, ...genAiDuration, 163.84, 327.68, 655.36],
  genAiDuration,
  firstToken,
  tokenGap: [0.001, 0.0025, 0.005, ...genAiTokenGap],
  genAiTokenGap,
  queue: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80],
  webhookAttempt: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  webhookLateness: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
  /** Ratios, not durations: 1 is an exact estimate, a lower value an estimate that was too high. */
  estimateRatio: [0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4],
  overhead: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
} as const;
