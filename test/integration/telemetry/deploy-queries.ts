import { readFileSync } from "node:fs";
import { parse } from "yaml";

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}
interface Alerts {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
}

const dashboard = JSON.parse(readFileSync("deploy/grafana/unified-inference.json", "utf8")) as Dashboard;
const alerts = parse(readFileSync("deploy/prometheus/alerts.yml", "utf8")) as Alerts;
/** Title and expression of each query of the dashboard. */
export const panelQueries = dashboard.panels.flatMap(({ title, targets }) =>
  targets.map(({ expr }) => [title, expr] as const),
);
/** Name and expression of each alert. */
export const alertQueries = alerts.groups.flatMap(({ rules }) =>
  rules.map(({ alert, expr }) => [alert, expr] as const),
);
