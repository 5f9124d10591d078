import { useId, useState } from "preact/hooks";
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { milliseconds, perSecond, shortNumber, wholeNumber } from "../../lib/format.js";
import { Chart } from "../../ui/chart.js";
import { Empty } from "../../ui/feedback.js";
import { textOf } from "../../ui/form.js";
import type { ChartSeries } from "../../ui/plot.js";
import { type Column, Table } from "../../ui/table.js";
import { byMinute, historyMs, type Minute, type Point, requestsNow } from "./history.js";

interface FiguresProps {
  readonly system: SystemJson;
  readonly points: readonly Point[];
}

/** The key figures. */
export function Figures({ system, points }: FiguresProps) {
  const { running, waiting } = requestsNow(system);
  const slots = (system.models ?? []).reduce((sum, model) => sum + (model.slots ?? 0), 0);
  const { counters = {}, latencies = [] } = system;
  const last = points.at(-1);
  const firstToken = latencies.find(({ name }) => name === "time_to_first_token");
  return (
    <div class="cards">
      <Figure title="Active requests" value={wholeNumber(running)} more={`of ${wholeNumber(slots)} slots`} />
      <Figure title="Queued requests" value={wholeNumber(waiting)} more="waiting for a slot" />
      <Figure
        title="Requests/s"
        value={last === undefined ? "…" : perSecond(last.requestsPerSecond)}
        more={`${shortNumber(counters.requests)} since start`}
      />
      <Figure
        title="Tokens/s"
        value={last === undefined ? "…" : perSecond(last.tokensPerSecond)}
        more={`since start: ${shortNumber(counters.promptTokens)} input, ${shortNumber(counters.completionTokens)} output`}
      />
      <Errors system={system} points={points} />
      <Figure
        title="First token, p50"
        value={firstToken?.count === undefined ? "–" : milliseconds(firstToken.p50Ms)}
        more={firstToken?.count === undefined ? "No streamed responses yet" : `p95 ${milliseconds(firstToken.p95Ms)}`}
      />
    </div>
  );
}

function Errors({ system, points }: FiguresProps) {
  const failed = points.reduce((sum, point) => sum + point.failed, 0);
  const ended = points.reduce((sum, point) => sum + point.ended, 0);
  const { counters = {} } = system;
  const share = ended === 0 ? "" : `${((100 * failed) / ended).toFixed(1)} % of ${shortNumber(ended)}; `;
  return (
    <Figure
      title="Errors in 5 min"
      value={wholeNumber(failed)}
      more={
        `${share}since start: ${shortNumber(counters.failed)} failed, ${shortNumber(counters.rejected)} rejected, ` +
        `${shortNumber(counters.clientLeft)} cancelled`
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

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const metrics: Readonly<Record<string, (points: readonly Point[]) => readonly ChartSeries[]>> = {
  "Tokens per second": (points) => [
    { label: "Tokens per second", values: points.map(({ tokensPerSecond }) => tokensPerSecond) },
  ],
  "Requests per second": (points) => [
    { label: "Requests per second", values: points.map(({ requestsPerSecond }) => requestsPerSecond) },
  ],
  "Active and queued": (points) => [
    { label: "Active", values: points.map(({ running }) => running) },
    { label: "Queued", values: points.map(({ waiting }) => waiting) },
  ],
};

const columns: readonly Column<Minute>[] = [
  { title: "Minute", cell: ({ startMs }) => clock.format(startMs) },
  { title: "Requests/s", cell: (minute) => perSecond(minute.requestsPerSecond), isNumber: true },
  { title: "Tokens/s", cell: (minute) => perSecond(minute.tokensPerSecond), isNumber: true },
  { title: "Errors", cell: ({ failed }) => wholeNumber(failed), isNumber: true },
  { title: "Max active", cell: ({ mostRunning }) => wholeNumber(mostRunning), isNumber: true },
  { title: "Max queued", cell: ({ mostWaiting }) => wholeNumber(mostWaiting), isNumber: true },
];

/** The last minutes as a chart and, by minute, as a table. */
export function RecentMinutes({ points }: { readonly points: readonly Point[] }) {
  const [metric, setMetric] = useState("Tokens per second");
  const id = useId();
  return (
    <section class="card stack" aria-label="Last 5 minutes">
      <div class="row spread">
        <h2>Last 5 minutes</h2>
        <div class="row">
          <label for={id}>Metric</label>
          <select id={id} value={metric} onChange={(event) => setMetric(textOf(event))}>
            {Object.keys(metrics).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
      </div>
      <div class="beside minutes">
        {points.length === 0 ? (
          <Empty>Collecting data…</Empty>
        ) : (
          <>
            <Chart
              label={`${metric}, last 5 minutes. The table next to it has the same data.`}
              kind="lines"
              times={points.map(({ atMs }) => atMs / 1_000)}
              series={metrics[metric]?.(points) ?? []}
              span={historyMs / 1_000}
              formatTime={(seconds) => clock.format(seconds * 1_000)}
              formatValue={shortNumber}
            />
            <Table
              caption="Last 5 minutes, by minute"
              columns={columns}
              rows={byMinute(points)}
              keyOf={({ startMs }) => startMs}
            />
          </>
        )}
      </div>
    </section>
  );
}
