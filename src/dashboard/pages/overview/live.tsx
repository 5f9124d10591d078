import { useId, useState } from "preact/hooks";
import { perSecond, shortNumber, wholeNumber } from "../../format.js";
import { Chart } from "../../ui/chart.js";
import type { ChartSeries } from "../../ui/chart-props.js";
import { Empty } from "../../ui/feedback.js";
import { textOf } from "../../ui/form.js";
import { type Column, Table } from "../../ui/table.js";
import { byMinute, historyMs, type Minute, type Point } from "./history.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const views: Readonly<Record<string, (points: readonly Point[]) => readonly ChartSeries[]>> = {
  "Tokens per second": (points) => [
    { label: "Tokens per second", values: points.map(({ tokensPerSecond }) => tokensPerSecond) },
  ],
  "Requests per second": (points) => [
    { label: "Requests per second", values: points.map(({ requestsPerSecond }) => requestsPerSecond) },
  ],
  "Running and waiting": (points) => [
    { label: "Running", values: points.map(({ running }) => running) },
    { label: "Waiting", values: points.map(({ waiting }) => waiting) },
  ],
};

const columns: readonly Column<Minute>[] = [
  { title: "Minute", cell: ({ startMs }) => clock.format(startMs) },
  { title: "Requests/s", cell: (minute) => perSecond(minute.requestsPerSecond), isNumber: true },
  { title: "Tokens/s", cell: (minute) => perSecond(minute.tokensPerSecond), isNumber: true },
  { title: "Failed", cell: ({ failed }) => wholeNumber(failed), isNumber: true },
  { title: "Most running", cell: ({ mostRunning }) => wholeNumber(mostRunning), isNumber: true },
  { title: "Most waiting", cell: ({ mostWaiting }) => wholeNumber(mostWaiting), isNumber: true },
];

/** The last minutes as a chart and, by minute, as a table. */
export function Live({ points }: { readonly points: readonly Point[] }) {
  const [view, setView] = useState("Tokens per second");
  const id = useId();
  return (
    <section class="card stack" aria-label="The last five minutes">
      <div class="row spread">
        <h2>The last five minutes</h2>
        <div class="row">
          <label for={id}>Chart of</label>
          <select id={id} value={view} onChange={(event) => setView(textOf(event))}>
            {Object.keys(views).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
      </div>
      <div class="beside minutes">
        {points.length === 0 ? (
          <Empty>The first numbers come with the second reading, in two seconds.</Empty>
        ) : (
          <>
            <Chart
              label={`${view} over the last five minutes; the table beside it has the numbers.`}
              kind="lines"
              times={points.map(({ atMs }) => atMs / 1_000)}
              series={views[view]?.(points) ?? []}
              span={historyMs / 1_000}
              formatTime={(seconds) => clock.format(seconds * 1_000)}
              formatValue={shortNumber}
            />
            <Table
              caption="The last five minutes, by minute"
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
