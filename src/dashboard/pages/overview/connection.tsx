import { useCallback, useEffect, useState } from "preact/hooks";
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { stream } from "../../lib/api.js";
import { Badge } from "../../ui/feedback.js";
import { outputRate } from "./history.js";
import { type Connection, watchOverview } from "./watch-overview.js";

interface LiveOverview {
  /** The last reading; null before the first one. */
  readonly system: SystemJson | null;
  /** Output tokens per second between the last two readings; null while unknown. */
  readonly outputRate: number | null;
  readonly connection: Connection;
  /** Reconnects now, without waiting for the backoff. */
  readonly retry: () => void;
}

/** Live overview of the service; disconnects while the tab is hidden. */
export function useOverview(): LiveOverview {
  const [{ system, rate }, setReading] = useState<{ readonly system: SystemJson | null; readonly rate: number | null }>(
    {
      system: null,
      rate: null,
    },
  );
  const [connection, setConnection] = useState<Connection>({ state: "connecting" });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let stop: (() => void) | null = null;
    const follow = (): void => {
      stop?.();
      stop = document.hidden
        ? null
        : watchOverview(openOverview, {
            onReading: (next) =>
              setReading((before) => ({ system: next, rate: outputRate(before.system, next) ?? before.rate })),
            onConnection: setConnection,
          });
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      stop?.();
    };
  }, [round]);
  const retry = useCallback(() => setRound((before) => before + 1), []);
  return { system, outputRate: rate, connection, retry };
}

function openOverview(signal: AbortSignal) {
  return stream("unified.admin.v1.SystemService/WatchOverview", {}, signal);
}

interface ConnectionStatusProps {
  readonly connection: Connection;
  /** Formatted time of the data shown. */
  readonly at: string;
  readonly onRetry: () => void;
}

/** Whether the data is live. Always rendered, so that the layout stays; announced when it changes. */
export function ConnectionStatus({ connection, at, onRetry }: ConnectionStatusProps) {
  return (
    <div class="row connection-status">
      <p role="status">
        {connection.state === "live" && <Badge tone="good">Live</Badge>}
        {connection.state === "connecting" && <Badge tone="plain">Connecting</Badge>}
        {connection.state === "disconnected" && (
          <>
            <Badge tone="bad">Disconnected</Badge> {connection.error.message} {at !== "" && `Data as of ${at}. `}
            Reconnecting automatically.
          </>
        )}
      </p>
      {connection.state === "disconnected" && (
        <button type="button" onClick={onRetry}>
          Reconnect now
        </button>
      )}
    </div>
  );
}
