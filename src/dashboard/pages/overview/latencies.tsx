import type { LatencyJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { milliseconds, wholeNumber } from "../../format.js";
import { type Column, Table } from "../../ui/table.js";

const titles: Readonly<Record<string, string>> = {
  request: "Whole request",
  time_to_first_token: "Time to first token",
  queue: "Wait for a slot",
};

const columns: readonly Column<LatencyJson>[] = [
  { title: "Duration", cell: ({ name = "" }) => titles[name] ?? name },
  { title: "p50", cell: ({ count, p50Ms }) => quantile(count, p50Ms), isNumber: true },
  { title: "p95", cell: ({ count, p95Ms }) => quantile(count, p95Ms), isNumber: true },
  { title: "p99", cell: ({ count, p99Ms }) => quantile(count, p99Ms), isNumber: true },
  { title: "Requests", cell: ({ count }) => wholeNumber(count), isNumber: true },
];

/** How long requests take. */
export function Latencies({ latencies }: { readonly latencies: readonly LatencyJson[] }) {
  return (
    <section class="stack" aria-label="Latency">
      <h2>Latency since the start</h2>
      <Table caption="Latency since the start" columns={columns} rows={latencies} keyOf={({ name = "" }) => name} />
    </section>
  );
}

function quantile(measured: string | undefined, ms: LatencyJson["p50Ms"]): string {
  return Number(measured ?? 0) === 0 ? "–" : milliseconds(ms);
}
