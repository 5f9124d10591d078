import { describe, expect, it } from "vitest";
import { errors } from "../../../src/contract/errors.js";
import { type MetricRow, metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { alertQueries, panelQueries } from "./deploy-queries.js";

const rows: Readonly<Record<string, MetricRow>> = metricTable;

/** Names of metrics in a query, as they are in the table. */
function metricsIn(expr: string): string[] {
  return [...expr.matchAll(/\b(?:uis|gen_ai)_\w+/g)].map(([name]) =>
    name in rows ? name : name.replace(/_(bucket|sum|count)$/, ""),
  );
}

describe.each([...panelQueries, ...alertQueries])("the query of '%s': %s", (_what, expr) => {
  it("uses only metrics, labels and codes that exist", () => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !(name in rows))).toEqual([]);
    for (const [, name = "", matchers = ""] of expr.matchAll(/\b((?:uis|gen_ai)_\w+)\{([^}]*)\}/g)) {
      const known = rows[name.replace(/_bucket$/, "")]?.labels;
      for (const [, label] of matchers.matchAll(/(\w+)\s*[=!]~?"/g)) expect(known).toContain(label);
    }
    const codes = [...expr.matchAll(/\b(?:code|reason)=~?"([^"]*)"/g)].flatMap(([, list = ""]) => list.split("|"));
    expect(codes.filter((code) => !(code in errors))).toEqual([]);
  });
});
