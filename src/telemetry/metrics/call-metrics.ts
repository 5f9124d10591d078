import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { inferenceOperations, type Operation } from "../../contract/operations.js";
import type { CallEnd, Observer } from "../../domain/call/observer.js";
import type { LimitKind } from "../../domain/call/rate-limits.js";
import { CallSeries } from "./call-series.js";

/** Models that have series of their own; further ones share the series of the model `other`. */
const modelsMax = 100;
const otherModel = "other";
/** The model of inference that named none of the catalog: names that clients invent make no series. */
const unknownModel = "unknown";
/** Labels that stand for no single model. */
const shared: ReadonlySet<string> = new Set(["", unknownModel, otherModel]);

/**
 * Counts calls. A call costs a few look-ups by names that exist already, and no allocation; the forms that metrics are
 * shown in are made when somebody asks for them.
 */
export class CallMetrics implements Observer {
  /** By the model's label. */
  readonly #byModel = new Map<string, Map<Operation, CallSeries>>();
  readonly #models = new Set<string>();
  readonly #rejections = new Map<string, number>();
  readonly #limitHits = new Map<string, number>();
  readonly #leaves = new Map<string, number>();
  #usagesLost = 0;

  callEnded(end: CallEnd): void {
    this.#seriesOf(end).add(end);
    if (end.code !== "ok" && isRejection(end.code)) increase(this.#rejections, end.code);
    if (end.clientLeft) increase(this.#leaves, end.stage);
  }

  limitHit(which: LimitKind): void {
    increase(this.#limitHits, which);
  }

  usageLost(): void {
    this.#usagesLost += 1;
  }

  series(): readonly CallSeries[] {
    return [...this.#byModel.values()].flatMap((byOperation) => [...byOperation.values()]);
  }

  /** By the code of the error. */
  get rejections(): ReadonlyMap<string, number> {
    return this.#rejections;
  }

  /** By the kind of the limit. */
  get limitHits(): ReadonlyMap<string, number> {
    return this.#limitHits;
  }

  /** Calls whose client left, by stage. */
  get leaves(): ReadonlyMap<string, number> {
    return this.#leaves;
  }

  get usagesLost(): number {
    return this.#usagesLost;
  }

  /** The label that stands for a model. The first ones keep their names for good. */
  labelOf(model: string): string {
    if (this.#models.has(model) || shared.has(model)) return model;
    if (this.#models.size >= modelsMax) return otherModel;
    this.#models.add(model);
    return model;
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

/** Turned away for who sent it, for a limit or for load: not for what it asked. */
export function isRejection(code: ErrorCode): boolean {
  const { http } = errorRow(code);
  return http === 401 || http === 403 || http === 429 || http === 503;
}

function increase(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
