import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { errors } from "../../../src/contract/errors.js";
import { type MetricRow, metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { hasPromtool, promtool } from "../../support/promtool.js";

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}
interface Alerts {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
}

const dashboard = JSON.parse(readFileSync("deploy/grafana/unified-inference.json", "utf8")) as Dashboard;
const alerts = parse(readFileSync("deploy/prometheus/alerts.yml", "utf8")) as Alerts;
const panelQueries = dashboard.panels.flatMap(({ title, targets }) =>
  targets.map(({ expr }) => [title, expr] as const),
);
const alertQueries = alerts.groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => [alert, expr] as const));

const rows: Readonly<Record<string, MetricRow>> = metricTable;

/** Names of metrics in a query, as they are in the table. */
function metricsIn(expr: string): string[] {
  return [...expr.matchAll(/\b(?:uis|gen_ai)_\w+/g)].map(([name]) =>
    name in rows ? name : name.replace(/_(bucket|sum|count)$/, ""),
  );
}

describe.each([...panelQueries, ...alertQueries])("the query of '%s': %s", (_what, expr) => {
  it("asks for metrics, labels and codes that there are", () => {
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

// Without promtool there is nobody who understands queries.
describe.skipIf(!hasPromtool)("promtool", () => {
  it("understands every query of the dashboard", () => {
    const folder = mkdtempSync(join(tmpdir(), "uis-queries-"));
    const variables = (expr: string) => expr.replaceAll("$__rate_interval", "5m").replaceAll("$model", ".*");
    const rules = panelQueries.map(([, expr], i) => ({ record: `panel:${i}`, expr: variables(expr) }));
    // JSON is YAML.
    writeFileSync(join(folder, "panels.yml"), JSON.stringify({ groups: [{ name: "panels", rules }] }));
    expect(promtool(["check", "rules", join(folder, "panels.yml")])).toMatchObject({ status: 0 });
    rmSync(folder, { recursive: true });
  });

  it("finds that each alert fires when it should and not when all is well", () => {
    expect(promtool(["test", "rules", "deploy/prometheus/alerts-test.yml"])).toMatchObject({ status: 0 });
    const tested = readFileSync("deploy/prometheus/alerts-test.yml", "utf8");
    for (const [alert] of alertQueries) {
      expect(tested).toContain(`alertname: ${alert}, exp_alerts: []`);
      expect(tested).toContain(`{alertname="${alert}",`);
    }
  });
});
