import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { freePort } from "../../support/redis/redis-process.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { alertRules, panelQueries } from "../telemetry/deploy-queries.js";

// The program is in Debian's package prometheus.
describe.skipIf(spawnSync("prometheus", ["--version"]).status !== 0)("deploy/prometheus/prometheus.yml", () => {
  let folder: string;
  let service: RunningService;
  let prometheus: ChildProcess;
  let api: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-prometheus-"));
    const token = join(folder, "ops.token");
    await writeFile(token, "operators-token-0123456789\n");
    service = await startService({ config: { server: { ops_host: "127.0.0.2", ops_token_file: token } } });
    await cp("deploy/prometheus", folder, { recursive: true });
    const config = (await readFile("deploy/prometheus/prometheus.yml", "utf8"))
      .replace("uis:9464", new URL(service.ops).host)
      .replace("/run/secrets/ops_token", token)
      .replaceAll(/: 15s/g, ": 1s");
    await writeFile(join(folder, "prometheus.yml"), config);
    const port = await freePort();
    api = `http://127.0.0.1:${port}/api/v1`;
    const args = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`];
    prometheus = spawn("prometheus", [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: "ignore" });
  });
  afterAll(async () => {
    prometheus.kill("SIGTERM");
    await once(prometheus, "exit");
    await service.close();
    await rm(folder, { recursive: true });
  });

  async function ask<T>(path: string): Promise<T> {
    const { status, data } = (await (await fetch(`${api}/${path}`)).json()) as { status: string; data: T };
    expect([path, status]).toEqual([path, "success"]);
    return data;
  }
  const query = (expr: string) => {
    const text = expr
      .replaceAll("$__rate_interval", "1m")
      .replaceAll("$__range", "1h")
      .replaceAll(/\$(model|instance)/g, ".*");
    return ask<{ result: readonly { value: readonly [number, string] }[] }>(`query?query=${encodeURIComponent(text)}`);
  };

  it("scrapes a service that requires the token, and loads every alert", async () => {
    const isUp = async () => {
      const found = await ask<{ activeTargets: readonly { health: string; lastError: string }[] }>("targets").catch(
        () => null,
      );
      return found?.activeTargets[0]?.health === "up";
    };
    await eventually(isUp, "the target is up", 60_000);
    const { groups } = await ask<{ groups: readonly { rules: readonly { name: string }[] }[] }>("rules");
    expect(groups.flatMap(({ rules }) => rules.map(({ name }) => name))).toEqual(alertRules.map(({ alert }) => alert));
  });

  it("has values for the panels of Grafana's first row after answered requests", async () => {
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    const body = JSON.stringify({ model: "test-chat", stream: true, messages: [{ role: "user", content: "Hi" }] });
    const isAnswered = async () => {
      await (await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body })).text();
      const [rate] = (await query("sum(rate(uis_requests_total[1m]))")).result;
      return Number(rate?.value[1] ?? 0) > 0;
    };
    await eventually(isAnswered, "requests are counted", 60_000);
    const first = panelQueries.slice(0, 12);
    const results = await Promise.all(first.map(async ([title, expr]) => [title, (await query(expr)).result] as const));
    expect(results.filter(([, result]) => result.length !== 1).map(([title]) => title)).toEqual([]);
    const valueIn = (title: string) => Number(results.find(([name]) => name === title)?.[1][0]?.value[1]);
    expect([valueIn("Success rate"), valueIn("Store"), valueIn("Usage lost"), valueIn("Instances")]).toEqual([
      1, 1, 0, 1,
    ]);
  });

  it("evaluates every query of the dashboard", async () => {
    for (const [, expr] of panelQueries) await query(expr);
    expect(panelQueries.length).toBeGreaterThan(40);
  });
});
