import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { CallEnd } from "../../domain/call/observer.js";
import { bounds } from "./bounds.js";
import { Buckets } from "./buckets.js";

/** What is counted of an engine's part in the calls of one operation and model. */
export class EngineSeries {
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

/** What is counted of the calls of one operation and model. */
export class CallSeries {
  readonly operation: Operation;
  /** As it is shown. */
  readonly model: string;
  readonly durations = new Map<ErrorCode | "ok", Buckets>();
  #engine: EngineSeries | null = null;

  constructor(operation: Operation, model: string) {
    this.operation = operation;
    this.model = model;
  }

  /** Null: no engine was asked so far. */
  get engine(): EngineSeries | null {
    return this.#engine;
  }

  add(end: CallEnd): void {
    let durations = this.durations.get(end.code);
    if (durations === undefined) {
      durations = new Buckets(bounds.duration);
      this.durations.set(end.code, durations);
    }
    durations.observe(end.durationMs / 1_000);
    if (end.usage === null) return;
    this.#engine ??= new EngineSeries();
    this.#engine.add(end);
  }
}
