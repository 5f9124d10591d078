import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type System, SystemSchema } from "../../../gen/unified/admin/v1/system_pb.js";
import { systemOfAll } from "../../domain/service/all-workers.js";
import { type HistoryRange, StatusHistory } from "../../domain/service/status-history.js";
import { createSystemClock } from "../../lib/clock.js";
import { type FigureData, SummedFigures } from "../../telemetry/metrics/call-figures.js";
import type { MetricData } from "../../telemetry/metrics/metric-table.js";
import { metricsType, renderMetrics } from "../../telemetry/metrics/metrics-page.js";
import { SummedMetrics } from "../../telemetry/metrics/summed-metrics.js";
import type { Handlers } from "./channel.js";
import { toPrimary, toWorker } from "./messages.js";
import { type Readiness, sumReadiness, sumStates } from "./sums.js";
import type { WorkerPool } from "./worker-pool.js";

/** Interval at which the counts of all workers are read. Counts since the last reading are lost when a worker crashes. */
const readEveryMs = 1_000;

interface AllWorkersStatusDeps {
  readonly pool: Pick<WorkerPool, "askAll" | "running" | "replaced">;
  readonly count: number;
  readonly phase: () => string;
}

/** Answer of a worker to the question `toWorker.status`. */
interface WorkerStatus {
  readonly system: JsonValue;
  readonly figures: FigureData;
}

/** Status, history, metrics and readiness of all workers together. */
export class AllWorkersStatus {
  readonly #deps: AllWorkersStatusDeps;
  readonly #figures = new SummedFigures();
  readonly #metrics = new SummedMetrics();
  readonly #history: StatusHistory;
  readonly #timer: NodeJS.Timeout;
  readonly #startedAtMs = Date.now();

  constructor(deps: AllWorkersStatusDeps) {
    this.#deps = deps;
    const figures = this.#figures;
    this.#history = new StatusHistory({
      clock: createSystemClock(),
      calls: figures,
      chargedNano: () => figures.costNano,
    });
    this.#timer = setInterval(() => void this.#readFigures(), readEveryMs);
    this.#timer.unref();
  }

  /** Keeps the last counts of a worker that has ended in the sums. */
  ended(pid: number): void {
    this.#figures.ended(pid);
    this.#metrics.ended(pid);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#history.close();
  }

  /** Answers to questions of workers on behalf of administrators. */
  handlers(): Handlers {
    return {
      [toPrimary.system]: async () => {
        const [first, ...others] = await this.#readSystems();
        if (first === undefined) throw new Error("no worker is ready");
        return toJson(SystemSchema, systemOfAll([first, ...others], this.#figures, this.#figures.costNano));
      },
      [toPrimary.history]: async (range: HistoryRange) => {
        await this.#readFigures();
        return this.#history.of(range);
      },
    };
  }

  /** The pages for operators. */
  pages() {
    return {
      ready: async () => {
        const { phase, count, pool } = this.#deps;
        const answers = await pool.askAll(toWorker.readiness);
        return sumReadiness(
          phase(),
          count,
          answers.map(({ parts }) => parts[0] as Readiness),
        );
      },
      debugState: () => this.#debugState(),
      metrics: { contentType: metricsType, render: () => this.#renderMetrics() },
    };
  }

  async #readSystems(): Promise<readonly System[]> {
    const answers = await this.#deps.pool.askAll(toWorker.status);
    return answers.map(({ worker, parts: [part] }) => {
      const { system, figures } = part as WorkerStatus;
      if (worker.isReady) this.#figures.read(worker.pid, figures);
      return fromJson(SystemSchema, system);
    });
  }

  async #readFigures(): Promise<void> {
    for (const { worker, parts } of await this.#deps.pool.askAll(toWorker.figures)) {
      if (worker.isReady) this.#figures.read(worker.pid, parts[0] as FigureData);
    }
  }

  async #debugState(): Promise<object> {
    const { pool } = this.#deps;
    const answers = await pool.askAll(toWorker.debugState);
    const sums = sumStates(answers.map(({ parts }) => parts[0] as object));
    const workers = pool.running.map(({ number, pid, isReady, startedAtMs }) => ({
      worker: number,
      pid,
      state: isReady ? "ready" : "starting",
      started_at: new Date(startedAtMs).toISOString(),
    }));
    return { ...sums, workers, workers_replaced: pool.replaced, started_at: new Date(this.#startedAtMs).toISOString() };
  }

  async #renderMetrics(): Promise<string> {
    for (const { worker, parts } of await this.#deps.pool.askAll(toWorker.metrics)) {
      if (worker.isReady) this.#metrics.read(worker.pid, parts as readonly MetricData[]);
    }
    return await renderMetrics(this.#metrics.all());
  }
}
