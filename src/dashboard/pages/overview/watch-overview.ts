/** The overview stream, reconnected when it breaks. */
import type { WatchOverviewResponseJson } from "../../../../gen/unified/admin/v1/system_service_pb.js";

type SystemJson = NonNullable<WatchOverviewResponseJson["system"]>;

export type Connection =
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  /** The next attempt follows after a backoff. */
  | { readonly state: "disconnected"; readonly error: Error };

export interface Listener {
  /** Receives the complete state at each reading. */
  onReading(system: SystemJson): void;
  onConnection(connection: Connection): void;
}

/** Opens the stream; the signal closes it. */
export type OpenOverview = (signal: AbortSignal) => AsyncIterable<WatchOverviewResponseJson>;

/** The service sends a reading every 2 s; a connection silent for longer is considered dead. */
export const silenceMs = 8_000;
const firstBackoffMs = 1_000;
const backoffMaxMs = 30_000;
/** After this many readings the connection was healthy, so a reconnect needs no backoff. */
const healthyReadings = 2;

/** Follows the overview until the returned function is called. Failed attempts back off from 1 s to 30 s. */
export function watchOverview(open: OpenOverview, { onReading, onConnection }: Listener): () => void {
  const stop = new AbortController();
  let last: SystemJson | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let backoffMs = firstBackoffMs;

  const attempt = async (): Promise<void> => {
    let readings = 0;
    try {
      for await (const { system, at } of withSilenceTimeout(open, stop.signal)) {
        if (stop.signal.aborted) return;
        readings += 1;
        if (readings === 1) onConnection({ state: "live" });
        last = system ?? { ...last, ...(at === undefined ? {} : { now: at }) };
        onReading(last);
      }
      again(readings, new Error("The service closed the connection."));
    } catch (thrown) {
      again(readings, thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  const again = (readings: number, error: Error): void => {
    if (stop.signal.aborted) return;
    if (readings > 0) backoffMs = firstBackoffMs;
    const wasHealthy = readings >= healthyReadings;
    onConnection(wasHealthy ? { state: "connecting" } : { state: "disconnected", error });
    timer = setTimeout(() => void attempt(), wasHealthy ? 0 : backoffMs);
    if (!wasHealthy) backoffMs = Math.min(backoffMaxMs, 2 * backoffMs);
  };

  onConnection({ state: "connecting" });
  void attempt();
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}

/** Throws after `silenceMs` without a message: a broken connection does not always report an error. */
async function* withSilenceTimeout(open: OpenOverview, signal: AbortSignal): AsyncGenerator<WatchOverviewResponseJson> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), silenceMs);
  try {
    for await (const message of open(AbortSignal.any([signal, silent.signal]))) {
      clearTimeout(timer);
      yield message;
      timer = setTimeout(() => silent.abort(), silenceMs);
    }
  } catch (thrown) {
    if (!silent.signal.aborted) throw thrown;
    throw new Error(`No data from the service for ${silenceMs / 1_000} seconds.`, { cause: thrown });
  } finally {
    clearTimeout(timer);
  }
}
