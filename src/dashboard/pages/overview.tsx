import { time } from "../format.js";
import { Loading } from "../ui/feedback.js";
import { Engines } from "./overview/engines.js";
import { Figures } from "./overview/figures.js";
import { Hints } from "./overview/hint-list.js";
import { Installation } from "./overview/installation.js";
import { Latencies } from "./overview/latencies.js";
import { LinkState } from "./overview/link-state.js";
import { Live } from "./overview/live.js";
import { Service, Store } from "./overview/store.js";
import { useOverview } from "./overview/use-overview.js";
import "./overview/overview.css";

/** How the service is doing, now and over the last minutes. */
export function Overview() {
  const { history, link, retry } = useOverview();
  const { last: system, points } = history;
  return (
    <div class="stack overview">
      <LinkState link={link} at={time(system?.now)} onRetry={retry} />
      {system === null ? link.state !== "away" && <Loading /> : <Sections system={system} points={points} />}
    </div>
  );
}

function Sections({ system, points }: Parameters<typeof Figures>[0]) {
  return (
    <>
      <Hints system={system} />
      <Figures system={system} points={points} />
      <Live points={points} />
      <div class="beside">
        <div class="stack">
          <Latencies latencies={system.latencies ?? []} />
          <Service system={system} />
        </div>
        <Store state={system.state ?? {}} deliveriesDue={system.deliveriesDue} />
      </div>
      <Engines models={system.models ?? []} />
      <Installation />
    </>
  );
}
