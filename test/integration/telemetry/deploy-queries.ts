import { readFileSync } from "node:fs";
import { parse } from "yaml";

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  /** Queries of a panel; rows have none. */
  readonly targets?: readonly { readonly expr: string }[];
}
interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
  readonly panels: readonly Panel[];
}
interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}
interface Alerts {
  readonly groups: readonly { readonly rules: readonly Alert[] }[];
}

export const dashboard = JSON.parse(readFileSync("deploy/grafana/unified-inference.json", "utf8")) as Dashboard;
const alerts = parse(readFileSync("deploy/prometheus/alerts.yml", "utf8")) as Alerts;
/** Title and expression of each query of the dashboard. */
export const panelQueries = dashboard.panels.flatMap(({ title, targets }) =>
  (targets ?? []).map(({ expr }) => [title, expr] as const),
);
export const alertRules = alerts.groups.flatMap(({ rules }) => rules);
/** Name and expression of each alert. */
export const alertQueries = alertRules.map(({ alert, expr }) => [alert, expr] as const);
