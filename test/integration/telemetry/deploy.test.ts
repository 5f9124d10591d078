import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { errors } from "../../../src/contract/errors.js";
import { type MetricRow, metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { alertQueries, alertRules, dashboard, panelQueries } from "./deploy-queries.js";

const rows: Readonly<Record<string, MetricRow>> = metricTable;

/** Names of metrics in a query, without suffixes such as `_bucket`. */
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
      // Prometheus adds the label instance to every series.
      for (const [, label] of matchers.matchAll(/(\w+)\s*[=!]~?"/g))
        expect(["instance", ...(known ?? [])]).toContain(label);
    }
    const codes = [...expr.matchAll(/\b(?:code|reason)=~?"([^"]*)"/g)].flatMap(([, list = ""]) => list.split("|"));
    expect(codes.filter((code) => !(code in errors))).toEqual([]);
  });
});

describe("the dashboard of Grafana", () => {
  const { panels, templating } = dashboard;

  it("has selectors for data source, instance and model, and every query filters by the instance", () => {
    expect(templating.list.map(({ name }) => name)).toEqual(["datasource", "instance", "model"]);
    const [, instance] = templating.list;
    expect(metricsIn(instance?.query ?? "").filter((name) => name in rows)).toEqual(["uis_build_info"]);
    const unfiltered = panelQueries.filter(([, expr]) => {
      const series = expr.match(/\b(?:uis|gen_ai)_\w+/g) ?? [];
      return series.length !== (expr.match(/instance=~"\$instance"/g) ?? []).length;
    });
    expect(unfiltered).toEqual([]);
    const variables = panelQueries.flatMap(([, expr]) => [...expr.matchAll(/\$(\w+)/g)].map(([, name]) => name));
    expect([...new Set(variables)].toSorted()).toEqual(["__range", "__rate_interval", "instance", "model"]);
  });

  it("groups its panels in rows, and shows only numbers in the first row", () => {
    const titles = panels.filter(({ type }) => type === "row").map(({ title }) => title);
    expect(titles[0]).toBe("Overview");
    expect(titles.length).toBeGreaterThan(4);
    const end = panels.findIndex(({ title }) => title === titles[1]);
    expect(new Set(panels.slice(1, end).map(({ type }) => type))).toEqual(new Set(["stat"]));
    expect(panels[0]?.type).toBe("row");
  });

  it("gives every panel its own id and its own place within 24 columns", () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { h, w, x, y } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: h * w }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`);
    });
    expect(new Set(cells).size).toBe(cells.length);
  });
});

describe("docs/alerts.md", () => {
  const page = readFileSync("docs/alerts.md", "utf8");
  const sections = [...page.matchAll(/^## (Uis\w+)\n\n([\s\S]*?)(?=\n## |$(?![\s\S]))/gm)];

  it("has exactly one section for every alert, in the order of the alerts", () => {
    expect(sections.map(([, name]) => name)).toEqual(alertRules.map(({ alert }) => alert));
  });

  it("explains in each section the meaning of the alert and the remedy", () => {
    const incomplete = sections.filter(
      ([, , text = ""]) => !/^\*\*Means\*\* [\s\S]{60,}\*\*Do\*\* [\s\S]{80,}$/.test(text),
    );
    expect(incomplete.map(([, name]) => name)).toEqual([]);
  });

  it("is linked from every alert", () => {
    const runbooks = alertRules.map(({ annotations }) => annotations["runbook"]);
    expect(runbooks).toEqual(alertRules.map(({ alert }) => `docs/alerts.md#${alert.toLowerCase()}`));
  });

  it("names only metrics that exist", () => {
    expect(metricsIn(page).filter((name) => !(name in rows))).toEqual([]);
  });
});
