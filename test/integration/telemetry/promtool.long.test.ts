import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startService } from "../../support/start-service.js";
import { alertQueries, panelQueries } from "./deploy-queries.js";

/** Runs promtool. `output` is its complete output; empty if a check found nothing. */
function promtool(args: readonly string[], input = ""): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync("promtool", args, { input, encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
}

// promtool comes with Debian's package prometheus.
describe.skipIf(spawnSync("promtool", ["--version"]).status !== 0)("promtool", () => {
  it("accepts every query of the dashboard", () => {
    const folder = mkdtempSync(join(tmpdir(), "uis-queries-"));
    const variables = (expr: string) =>
      expr
        .replaceAll("$__rate_interval", "5m")
        .replaceAll("$__range", "1h")
        .replaceAll(/\$(model|instance)/g, ".*");
    const rules = panelQueries.map(([, expr], i) => ({ record: `panel:${i}`, expr: variables(expr) }));
    // promtool reads YAML, and every JSON document is valid YAML.
    writeFileSync(join(folder, "panels.yml"), JSON.stringify({ groups: [{ name: "panels", rules }] }));
    expect(promtool(["check", "rules", join(folder, "panels.yml")])).toMatchObject({ status: 0 });
    rmSync(folder, { recursive: true });
  });

  it("confirms that each alert fires in its condition and not in normal operation", () => {
    expect(promtool(["test", "rules", "deploy/prometheus/alerts-test.yml"])).toMatchObject({ status: 0 });
    const tested = readFileSync("deploy/prometheus/alerts-test.yml", "utf8");
    for (const [alert] of alertQueries) {
      expect(tested).toContain(`alertname: ${alert}, exp_alerts: []`);
      expect(tested).toContain(`{alertname="${alert}",`);
    }
  });

  it("reports no problem with the metrics page", async () => {
    const service = await startService();
    try {
      const body = JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "Hi" }] });
      const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
      expect((await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body })).status).toBe(200);
      const page = await (await fetch(`${service.ops}/metrics`)).text();
      expect(promtool(["check", "metrics"], page)).toEqual({ status: 0, output: "" });
    } finally {
      await service.close();
    }
  });
});
