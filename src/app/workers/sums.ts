/** Combines the status pages of all workers into one page. */

type Json = Record<string, unknown>;

/** Figures that every worker reads from the store: they are not added up, because each worker reports the total. */
const shared: ReadonlySet<string> = new Set(["due", "live_leases"]);
/** Settings of a deployment, which are the same in all workers. */
const settings: ReadonlySet<string> = new Set(["weight", "priority"]);

/** `/debug/state` of all workers: counts are added up, models and deployments by their ids. */
export function sumStates(states: readonly object[]): object {
  return states.reduce<Json>((sum, state) => added(sum, state as Json), {});
}

function added(a: Json, b: Json): Json {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries([...names].map((name) => [name, addedValue(name, a[name], b[name])]));
}

function addedValue(name: string, a: unknown, b: unknown): unknown {
  if (a === undefined || a === null) return b;
  if (b === undefined || b === null) return a;
  if (typeof a === "number" && typeof b === "number") {
    if (shared.has(name)) return Math.max(a, b);
    return settings.has(name) ? a : a + b;
  }
  if (Array.isArray(a) && Array.isArray(b)) return addedEntries(a as Json[], b as Json[]);
  if (typeof a === "object" && typeof b === "object") return added(a as Json, b as Json);
  // The status of a deployment: if a worker does not use the deployment, its status is shown.
  return name === "state" && a === "ready" ? b : a;
}

function addedEntries(a: readonly Json[], b: readonly Json[]): readonly Json[] {
  const keyOf = ({ id, model }: Json) => `${String(id)} ${String(model)}`;
  const sums = new Map(a.map((entry) => [keyOf(entry), entry]));
  for (const entry of b) sums.set(keyOf(entry), added(sums.get(keyOf(entry)) ?? {}, entry));
  return [...sums.values()];
}

/** The part of a worker's answer to `/ready` that is combined with those of other workers. */
export interface Readiness {
  readonly ready: boolean;
  readonly detail: {
    readonly status: string;
    readonly reason: string | null;
    readonly state: { readonly ok: boolean; readonly latency_ms: number; readonly warnings: readonly string[] };
    readonly usage: { readonly spooled: number; readonly memory_only: number; readonly spool_fault: string | null };
  };
}

/** `/ready` of all workers: ready while at least one worker is ready. `status`: phase of the service. */
export function sumReadiness(status: string, count: number, all: readonly Readiness[]) {
  const details = all.map(({ detail }) => detail);
  const readyWorkers = all.filter(({ ready }) => ready).length;
  const usages = details.map(({ usage }) => usage);
  return {
    ready: status === "ready" && readyWorkers > 0,
    detail: {
      status,
      reason: details.find(({ reason }) => reason !== null)?.reason ?? null,
      state: stateOf(details.map(({ state }) => state)),
      usage: {
        spooled: usages.reduce((sum, { spooled }) => sum + spooled, 0),
        memory_only: usages.reduce((sum, { memory_only: own }) => sum + own, 0),
        spool_fault: usages.find(({ spool_fault: fault }) => fault !== null)?.spool_fault ?? null,
      },
      workers: { ready: readyWorkers, count },
    },
  };
}

function stateOf(states: readonly Readiness["detail"]["state"][]): object | null {
  const [first] = states;
  if (first === undefined) return null;
  return {
    ...first,
    ok: states.every(({ ok }) => ok),
    latency_ms: Math.max(...states.map(({ latency_ms: ms }) => ms)),
    warnings: [...new Set(states.flatMap(({ warnings }) => warnings))],
  };
}
