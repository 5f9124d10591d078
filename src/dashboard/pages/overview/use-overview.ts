import { useCallback, useEffect, useState } from "preact/hooks";
import { stream } from "../../api.js";
import { afterReading, type History, noHistory } from "./history.js";
import { type Link, watchOverview } from "./watch-overview.js";

/** Outlives the page, so that coming back shows the minutes before. */
let history: History = noHistory;

export interface Overview {
  readonly history: History;
  readonly link: Link;
  /** Connects at once, whatever the pause. */
  readonly retry: () => void;
}

/** What the service tells of itself while the page can be seen; hidden, it asks for nothing. */
export function useOverview(): Overview {
  const [shown, setShown] = useState(history);
  const [link, setLink] = useState<Link>({ state: "connecting" });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let stop: (() => void) | null = null;
    const follow = (): void => {
      stop?.();
      stop = document.hidden ? null : watchOverview(openOverview, { look, link: setLink });
    };
    const look: Parameters<typeof watchOverview>[1]["look"] = (system) => {
      history = afterReading(history, system);
      setShown(history);
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      stop?.();
    };
  }, [round]);
  return { history: shown, link, retry: useCallback(() => setRound((before) => before + 1), []) };
}

function openOverview(signal: AbortSignal) {
  return stream("unified.admin.v1.SystemService/WatchOverview", {}, signal);
}
