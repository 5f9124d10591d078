import { create } from "@bufbuild/protobuf";
import {
  CountersSchema,
  LatencySchema,
  type ModelStatus,
  ModelStatusSchema,
  type System,
  SystemSchema,
} from "../../../gen/unified/admin/v1/system_pb.js";
import type { CallFigures } from "../call/observer.js";
import { counterFields, type History, type HistoryRange, latencyFields } from "./status-history.js";

/** Status of all workers of a service. Workers are processes on one machine that share its ports. */
export interface AllWorkers {
  /** Rejects when the first process, which collects the figures of all workers, does not answer in time. */
  system(): Promise<System>;
  history(range: HistoryRange): Promise<History>;
}

/**
 * Combines the status of at least one worker into the status of the service. `calls` and `costNano` are the sums over the
 * workers. Values that all workers read from the same store are taken once.
 */
export function systemOfAll(all: readonly [System, ...System[]], calls: CallFigures, costNano: number): System {
  const [first] = all;
  const states = all.flatMap(({ state }) => state ?? []);
  const [state] = states;
  const startedAt = all.map((one) => one.startedAt).sort((a, b) => Number((a?.seconds ?? 0n) - (b?.seconds ?? 0n)))[0];
  return create(SystemSchema, {
    ...first,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(state === undefined
      ? {}
      : {
          state: {
            ...state,
            ok: states.every(({ ok }) => ok),
            latencyMs: Math.max(...states.map(({ latencyMs }) => latencyMs)),
            replicas: Math.max(...states.map(({ replicas }) => replicas)),
            spooled: states.reduce((sum, { spooled }) => sum + spooled, 0n),
          },
        }),
    models: modelsOfAll(all),
    counters: create(CountersSchema, counterFields({ ...calls.counts(), costNano })),
    latencies: latencyFields(calls.durations().since(null)).map((latency) => create(LatencySchema, latency)),
    deliveriesDue: all.reduce((most, { deliveriesDue: due }) => (due > most ? due : most), 0n),
    endpointsFailing: Math.max(...all.map(({ endpointsFailing }) => endpointsFailing)),
    warnings: [...new Set(all.flatMap(({ warnings }) => warnings))],
  });
}

/** States of a model, best first: the service reports the best state of a model in any worker. */
const states = ["ready", "loading", "unloaded", "failed"];

function modelsOfAll(all: readonly System[]): ModelStatus[] {
  const sums = new Map<string, ModelStatus>();
  for (const model of all.flatMap(({ models }) => models)) {
    const sum = sums.get(model.id);
    if (sum === undefined) {
      sums.set(model.id, create(ModelStatusSchema, model));
      continue;
    }
    if (states.indexOf(model.state) < states.indexOf(sum.state)) sum.state = model.state;
    sum.problem ||= model.problem;
    sum.slots += model.slots;
    sum.running += model.running;
    sum.waiting += model.waiting;
    sum.restarts += model.restarts;
    sum.producedTokens += model.producedTokens;
    sum.memoryBytes += model.memoryBytes;
  }
  return [...sums.values()];
}

/** Reads the status of all workers, or only of this worker if the first process does not answer. */
export class SharedStatus {
  readonly #own: { read(): Promise<System> };
  readonly #all: AllWorkers;

  constructor(own: { read(): Promise<System> }, all: AllWorkers) {
    this.#own = own;
    this.#all = all;
  }

  read(): Promise<System> {
    return this.#all.system().catch(() => this.#own.read());
  }
}
