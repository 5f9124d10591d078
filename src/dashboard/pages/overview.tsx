import { useEffect, useState } from "preact/hooks";
import type { StatusJson } from "../../../gen/unified/admin/v1/status_pb.js";
import { call } from "../api.js";
import { Loading, Problem } from "../ui/feedback.js";
import { useData } from "../use-data.js";
import { Engines } from "./overview/engines.js";
import { Figures } from "./overview/figures.js";
import { Hints } from "./overview/hint-list.js";
import { afterReading, type History, noHistory } from "./overview/history.js";
import { Latencies } from "./overview/latencies.js";
import { Live } from "./overview/live.js";
import { Service, Store } from "./overview/store.js";
import "./overview/overview.css";

const everyMs = 2_000;

/** Outlives the page, so that coming back shows the minutes before. */
let history: History = noHistory;

/** How the service is doing, now and over the last minutes. */
export function Overview() {
  const { value, error, reload } = useData(readStatus, [], everyMs);
  const { last: status, points } = useHistory(value);
  if (status === null) return error === null ? <Loading /> : <Problem error={error} onRetry={reload} />;
  return (
    <div class="stack overview">
      <Problem error={error} onRetry={reload} />
      <Hints status={status} />
      <Figures status={status} points={points} />
      <Live points={points} />
      <div class="beside">
        <div class="stack">
          <Latencies latencies={status.latencies ?? []} />
          <Service status={status} />
        </div>
        <Store state={status.state ?? {}} deliveriesDue={status.deliveriesDue} />
      </div>
      <Engines models={status.models ?? []} />
    </div>
  );
}

async function readStatus(signal: AbortSignal): Promise<StatusJson> {
  const { status = {} } = await call("unified.admin.v1.SystemService/GetStatus", {}, signal);
  return status;
}

function useHistory(reading: StatusJson | null): History {
  const [shown, setShown] = useState(history);
  useEffect(() => {
    if (reading === null) return;
    history = afterReading(history, reading);
    setShown(history);
  }, [reading]);
  return shown;
}
