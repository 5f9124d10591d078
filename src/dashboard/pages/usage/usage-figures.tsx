import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { UsageBucketJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import { dollars, shortNumber } from "../../format.js";
import { Chart } from "../../ui/chart.js";
import { Table } from "../../ui/table.js";
import { type Choice, measureTitles } from "./choice.js";
import { csvOf } from "./csv.js";
import { download } from "./download.js";
import { barsOf, rowsOf, totalsOf, type UsageRow } from "./sums.js";
import { chartTimes, csvRows, groupColumns, sumColumns, timeColumn } from "./usage-columns.js";
import { keyNames } from "./use-keys.js";

export interface UsageFiguresProps {
  readonly choice: Choice;
  readonly buckets: readonly UsageBucketJson[];
  readonly keys: readonly ApiKeyJson[];
}

/** A chart, its sums, and every hour or day of it as a table and as a file. */
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
          label={`${measureTitles[choice.of]} over time; the tables below have the numbers.`}
          kind="stacked bars"
          times={buckets.map(({ startTime = "" }) => Date.parse(startTime) / 1_000)}
          series={barsOf(buckets, choice.of, labelOf(choice, nameOf))}
          formatTime={formatTime}
          formatValue={choice.of === "cost" ? dollars : shortNumber}
        />
      </section>
      <section class="stack" aria-label="Sums">
        <h2>Sums</h2>
        <Table
          caption="Sums over the whole time"
          columns={[...columns, ...sumColumns]}
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
              caption="Every hour or day"
              columns={[timeColumn(choice.range), ...columns, ...sumColumns]}
              rows={shown}
              keyOf={keyOf}
            />
          )}
        </Bounded>
      </section>
    </>
  );
}

const boundedAt = 60;

interface BoundedProps {
  readonly rows: readonly UsageRow[];
  readonly children: (shown: readonly UsageRow[]) => preact.ComponentChild;
}

/** Many rows are drawn only when somebody asks for them. */
function Bounded({ rows, children }: BoundedProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      {children(isOpen ? rows : rows.slice(0, boundedAt))}
      {!isOpen && rows.length > boundedAt && (
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
  return ({ model, apiKeyId }) => {
    if (by === "all") return "All together";
    if (by === "model") return model;
    return by === "key" ? nameOf(apiKeyId) : `${model}, ${nameOf(apiKeyId)}`;
  };
}

function keyOf({ startTime, model, apiKeyId }: UsageRow): string {
  return JSON.stringify([startTime, model, apiKeyId]);
}
