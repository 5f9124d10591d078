import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { UsageBucketJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import { dollars, shortNumber, wholeNumber } from "../../lib/format.js";
import { Chart } from "../../ui/chart.js";
import { type Column, Table } from "../../ui/table.js";
import { type Choice, type Grouping, measureTitles, type RangeName } from "./choice.js";
import { csvOf, csvRows } from "./csv.js";
import { barsOf, keyNames, rowsOf, totalsOf, type UsageRow } from "./sums.js";

export interface UsageFiguresProps {
  readonly choice: Choice;
  readonly buckets: readonly UsageBucketJson[];
  readonly keys: readonly ApiKeyJson[];
}

/** Usage as a chart, totals, and a table by hour or day with CSV download. */
export function UsageFigures({ choice, buckets, keys }: UsageFiguresProps) {
  const nameOf = keyNames(keys);
  const rows = rowsOf(buckets);
  const columns = groupColumns(choice.by, nameOf);
  const formatTime = chartTimes(choice.range);
  const save = (): void =>
    download(`usage-${choice.account || "default"}-${choice.range}.csv`, "text/csv", csvOf(csvRows(rows, nameOf)));
  return (
    <>
      <section class="card stack" aria-label="Chart">
        <Chart
          label={`${measureTitles[choice.of]} over time. The tables below have the same data.`}
          kind="stacked bars"
          times={buckets.map(({ startTime = "" }) => Date.parse(startTime) / 1_000)}
          series={barsOf(buckets, choice.of, labelOf(choice, nameOf))}
          formatTime={formatTime}
          formatValue={choice.of === "cost" ? dollars : shortNumber}
        />
      </section>
      <section class="stack" aria-label="Totals">
        <h2>Totals</h2>
        <Table
          caption="Totals"
          columns={[...columns, ...totalColumns]}
          rows={totalsOf(rows, choice.of)}
          keyOf={keyOf}
        />
      </section>
      <section class="stack" aria-label="Over time">
        <div class="row spread">
          <h2>{choice.range === "24h" ? "By hour" : "By day (UTC)"}</h2>
          <button type="button" onClick={save}>
            Download CSV
          </button>
        </div>
        <Bounded rows={rows.toReversed()}>
          {(shown) => (
            <Table
              caption={choice.range === "24h" ? "Usage by hour" : "Usage by day"}
              columns={[timeColumn(choice.range), ...columns, ...totalColumns]}
              rows={shown}
              keyOf={keyOf}
            />
          )}
        </Bounded>
      </section>
    </>
  );
}

const rowsShownFirst = 60;

interface BoundedProps {
  readonly rows: readonly UsageRow[];
  readonly children: (shown: readonly UsageRow[]) => preact.ComponentChild;
}

/** Renders the first rows, and all rows after a click. */
function Bounded({ rows, children }: BoundedProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      {children(isOpen ? rows : rows.slice(0, rowsShownFirst))}
      {!isOpen && rows.length > rowsShownFirst && (
        <div>
          <button type="button" onClick={() => setOpen(true)}>
            Show all {rows.length} rows
          </button>
        </div>
      )}
    </>
  );
}

function labelOf({ by }: Choice, nameOf: (id: string) => string): (row: UsageRow) => string {
  return ({ model, apiKeyId, operation }) => {
    if (by === "all") return "Total";
    if (by === "operation") return operationTitle(operation);
    if (by === "model") return model;
    return by === "key" ? nameOf(apiKeyId) : `${model}, ${nameOf(apiKeyId)}`;
  };
}

/** The name of the operation as in the API and in metrics. */
function operationTitle(operation: string): string {
  return operation === "" ? "Not recorded" : operation;
}

function keyOf({ startTime, model, apiKeyId, operation }: UsageRow): string {
  return JSON.stringify([startTime, model, apiKeyId, operation]);
}

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hourOfDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** Formats the labels below the bars. */
function chartTimes(range: RangeName): (unixSeconds: number) => string {
  const format = range === "24h" ? hour : day;
  return (seconds) => format.format(seconds * 1_000);
}

function timeColumn(range: RangeName): Column<UsageRow> {
  const format = range === "24h" ? hourOfDay : dayOfYear;
  return {
    title: range === "24h" ? "Hour" : "Day",
    cell: ({ startTime }) => format.format(new Date(startTime)),
  };
}

function groupColumns(by: Grouping, nameOf: (id: string) => string): readonly Column<UsageRow>[] {
  const model: Column<UsageRow> = { title: "Model", cell: (row) => <span class="value">{row.model}</span> };
  const key: Column<UsageRow> = {
    title: "API key",
    cell: ({ apiKeyId }) => (
      <div>
        {nameOf(apiKeyId)} {nameOf(apiKeyId) !== apiKeyId && <small class="value">{apiKeyId}</small>}
      </div>
    ),
  };
  const operation: Column<UsageRow> = { title: "Operation", cell: (row) => operationTitle(row.operation) };
  return { model: [model], key: [key], "model-key": [model, key], operation: [operation], all: [] }[by];
}

const totalColumns: readonly Column<UsageRow>[] = [
  { title: "Requests", cell: ({ requests }) => wholeNumber(requests), isNumber: true },
  { title: "Input tokens", cell: ({ promptTokens }) => wholeNumber(promptTokens), isNumber: true },
  { title: "Cached", cell: ({ cachedTokens }) => wholeNumber(cachedTokens), isNumber: true },
  { title: "Output tokens", cell: ({ completionTokens }) => wholeNumber(completionTokens), isNumber: true },
  { title: "Cost", cell: ({ costNanoDollars }) => dollars(costNanoDollars), isNumber: true },
];

/** Saves text as a file in the browser. */
function download(fileName: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  URL.revokeObjectURL(url);
}
