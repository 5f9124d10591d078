/** The overview as it changes, over a connection that is made again when it breaks. */
import type { WatchOverviewResponseJson } from "../../../../gen/unified/admin/v1/system_service_pb.js";

type SystemJson = NonNullable<WatchOverviewResponseJson["system"]>;

/** Whether what is shown is what is. */
export type Link =
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  /** It is tried again after a while. */
  | { readonly state: "away"; readonly error: Error };

export interface Listener {
  /** The whole of it, at each look of the service. */
  look(system: SystemJson): void;
  link(link: Link): void;
}

/** Ends with the signal. */
export type OpenOverview = (signal: AbortSignal) => AsyncIterable<WatchOverviewResponseJson>;

/** The service looks every two seconds: a connection that is silent for longer is dead. */
export const silenceMs = 8_000;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
/** A connection that told so often was a good one: its end is no reason to wait. */
const goodLooks = 2;

/** Follows the service until the returned function is called. Pauses between attempts grow from one second to thirty. */
export function watchOverview(open: OpenOverview, { look, link }: Listener): () => void {
  const stop = new AbortController();
  let last: SystemJson | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pauseMs = firstPauseMs;

  const attempt = async (): Promise<void> => {
    let looks = 0;
    try {
      for await (const { system, at } of unlessSilent(open, stop.signal)) {
        if (stop.signal.aborted) return;
        looks += 1;
        if (looks === 1) link({ state: "live" });
        last = system ?? { ...last, ...(at === undefined ? {} : { now: at }) };
        look(last);
      }
      again(looks, new Error("The service has ended the connection."));
    } catch (thrown) {
      again(looks, thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  const again = (looks: number, error: Error): void => {
    if (stop.signal.aborted) return;
    if (looks > 0) pauseMs = firstPauseMs;
    const isGood = looks >= goodLooks;
    link(isGood ? { state: "connecting" } : { state: "away", error });
    timer = setTimeout(() => void attempt(), isGood ? 0 : pauseMs);
    if (!isGood) pauseMs = Math.min(longestPauseMs, 2 * pauseMs);
  };

  link({ state: "connecting" });
  void attempt();
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}

/** Throws when nothing comes for `silenceMs`: a broken way does not always tell so. */
async function* unlessSilent(open: OpenOverview, signal: AbortSignal): AsyncGenerator<WatchOverviewResponseJson> {
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
    throw new Error(`Nothing was heard of the service for ${silenceMs / 1_000} seconds.`, { cause: thrown });
  } finally {
    clearTimeout(timer);
  }
}
