import { useId, useState } from "preact/hooks";
import { dollars, milliseconds, perSecond, shortNumber, wholeNumber } from "../../lib/format.js";
import { Chart } from "../../ui/chart.js";
import { textOf } from "../../ui/form.js";
import { type Column, Table } from "../../ui/table.js";
import { type History, type RangeName, type Row, ranges, rate } from "./history.js";

interface Metric {
  readonly series: Readonly<Record<string, (row: Row) => number | null>>;
  readonly format: (value: number) => string;
}

const metrics: Readonly<Record<string, Metric>> = {
  "Tokens per second": {
    series: {
      Output: (row) => rate(row, row.completionTokens),
      Input: (row) => rate(row, row.promptTokens),
    },
    format: shortNumber,
  },
  "Requests per second": { series: { Requests: (row) => rate(row, row.requests) }, format: shortNumber },
  "Errors and rejections": {
    series: { Failed: ({ failed }) => failed, Rejected: ({ rejected }) => rejected },
    format: shortNumber,
  },
  "Time to first token": {
    series: { p50: ({ firstToken }) => firstToken?.p50 ?? null, p95: ({ firstToken }) => firstToken?.p95 ?? null },
    format: milliseconds,
  },
  "Request duration": {
    series: { p50: ({ duration }) => duration?.p50 ?? null, p95: ({ duration }) => duration?.p95 ?? null },
    format: milliseconds,
  },
  Cost: { series: { Cost: ({ costNano }) => costNano }, format: dollars },
};

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

export interface CourseProps {
  readonly range: RangeName;
  readonly history: History;
}

/** The history of the time range as a chart, and as a table with one row per interval. */
export function Course({ range, history: { rows } }: CourseProps) {
  const [name, setName] = useState("Tokens per second");
  const id = useId();
  const { title, seconds } = ranges[range];
  const { series = {}, format = shortNumber } = metrics[name] ?? {};
  const formatTime = (ms: number): string => (range === "7d" ? day : clock).format(ms);
  // The last value is repeated at the end of its interval, so that a single interval is drawn as a line.
  const times = [...rows.map(({ startMs }) => startMs), rows.at(-1)?.endMs ?? 0].map((ms) => ms / 1_000);
  return (
    <section class="card stack" aria-label={title}>
      <div class="row spread">
        <h2>{title}</h2>
        <div class="row">
          <label for={id}>Metric</label>
          <select id={id} class="metric" value={name} onChange={(event) => setName(textOf(event))}>
            {Object.keys(metrics).map((metric) => (
              <option key={metric}>{metric}</option>
            ))}
          </select>
        </div>
      </div>
      <Chart
        label={`${name}, ${title.toLowerCase()}. The table below it has the same data.`}
        kind="lines"
        times={times}
        series={Object.entries(series).map(([label, of]) => {
          const values = rows.map(of);
          return { label, values: [...values, values.at(-1) ?? null] };
        })}
        span={seconds}
        formatTime={(unixSeconds) => formatTime(unixSeconds * 1_000)}
        formatValue={format}
      />
      <details>
        <summary>Show as a table</summary>
        <Table
          caption={`${title}, newest first`}
          columns={columnsOf(formatTime)}
          rows={rows.toReversed()}
          keyOf={({ startMs }) => startMs}
        />
      </details>
    </section>
  );
}

function columnsOf(formatTime: (ms: number) => string): readonly Column<Row>[] {
  const perSecondOf = (row: Row, value: number): string => {
    const found = rate(row, value);
    return found === null ? "–" : perSecond(found);
  };
  return [
    { title: "From", cell: ({ startMs }) => <span class="whole">{formatTime(startMs)}</span> },
    { title: "Requests/s", cell: (row) => perSecondOf(row, row.requests), isNumber: true },
    { title: "Input/s", cell: (row) => perSecondOf(row, row.promptTokens), isNumber: true },
    { title: "Output/s", cell: (row) => perSecondOf(row, row.completionTokens), isNumber: true },
    { title: "Failed", cell: ({ failed }) => wholeNumber(failed), isNumber: true },
    { title: "Rejected", cell: ({ rejected }) => wholeNumber(rejected), isNumber: true },
    { title: "First token", cell: ({ firstToken }) => quantileText(firstToken), isNumber: true },
    { title: "Duration", cell: ({ duration }) => quantileText(duration), isNumber: true },
    { title: "Cost", cell: ({ costNano }) => dollars(costNano), isNumber: true },
  ];
}

/** Formats p50 and p95. */
function quantileText(quantiles: Row["duration"]): string {
  return quantiles === null ? "–" : `${milliseconds(quantiles.p50)} / ${milliseconds(quantiles.p95)}`;
}
