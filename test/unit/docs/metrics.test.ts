import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { renderMetricsPage } from "../../../scripts/metric-docs.js";

it("docs/metrics.md equals the table of metrics (run: npx tsx scripts/metric-docs.ts)", () => {
  expect(readFileSync("docs/metrics.md", "utf8")).toBe(renderMetricsPage());
});
