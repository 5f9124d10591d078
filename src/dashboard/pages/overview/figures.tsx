import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { milliseconds, perSecond, shortNumber, wholeNumber } from "../../format.js";
import { type Point, requestsNow } from "./history.js";

/** The few numbers that one looks at first. */
export function Figures({ system, points }: { readonly system: SystemJson; readonly points: readonly Point[] }) {
  const { running, waiting } = requestsNow(system);
  const slots = (system.models ?? []).reduce((sum, model) => sum + (model.slots ?? 0), 0);
  const { counters = {}, latencies = [] } = system;
  const last = points.at(-1);
  const firstToken = latencies.find(({ name }) => name === "time_to_first_token");
  return (
    <div class="cards">
      <Figure title="Running now" value={wholeNumber(running)} more={`of ${wholeNumber(slots)} slots`} />
      <Figure title="Waiting now" value={wholeNumber(waiting)} more="for a slot" />
      <Figure
        title="Requests/s"
        value={last === undefined ? "…" : perSecond(last.requestsPerSecond)}
        more={`${shortNumber(counters.requests)} since the start`}
      />
      <Figure
        title="Tokens/s"
        value={last === undefined ? "…" : perSecond(last.tokensPerSecond)}
        more={`${shortNumber(counters.promptTokens)} read, ${shortNumber(counters.completionTokens)} written`}
      />
      <Errors system={system} points={points} />
      <Figure
        title="First token"
        value={firstToken?.count === undefined ? "–" : milliseconds(firstToken.p50Ms)}
        more={
          firstToken?.count === undefined
            ? "no streamed answer yet"
            : `half of them; p95 ${milliseconds(firstToken.p95Ms)}`
        }
      />
    </div>
  );
}

function Errors({ system, points }: { readonly system: SystemJson; readonly points: readonly Point[] }) {
  const failed = points.reduce((sum, point) => sum + point.failed, 0);
  const ended = points.reduce((sum, point) => sum + point.ended, 0);
  const { counters = {} } = system;
  const share = ended === 0 ? "" : `${((100 * failed) / ended).toFixed(1)} % of ${shortNumber(ended)}; `;
  return (
    <Figure
      title="Failed in 5 min"
      value={wholeNumber(failed)}
      more={
        `${share}since the start ${shortNumber(counters.failed)}, turned away ${shortNumber(counters.rejected)}, ` +
        `left ${shortNumber(counters.clientLeft)}`
      }
    />
  );
}

function Figure({ title, value, more }: { readonly title: string; readonly value: string; readonly more: string }) {
  return (
    <div class="card">
      <h2>{title}</h2>
      <div class="figure">{value}</div>
      <small>{more}</small>
    </div>
  );
}
