import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService();
  env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
});
afterAll(() => service.close());

async function json(args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await uis([...args, "--json"], { env });
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

async function chat(): Promise<void> {
  const response = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "one two" }] }),
  });
  await response.text();
}

describe("uis usage", () => {
  it("prints rows by day, model and key (USE-10)", async () => {
    await chat();
    const today = new Date().toISOString().slice(0, 10);
    const [row, ...rest] = (await json(["usage", "--by", "day,model,key"])) as Record<string, unknown>[];
    expect(rest).toEqual([]);
    expect(row).toMatchObject({ day: today, model: "test-chat", requests: 1, prompt_tokens: 2, completion_tokens: 4 });
    expect(String(row?.["api_key_id"])).toMatch(/^key_/);
    const { stdout } = await uis(["usage"], { env });
    expect(stdout).toContain("test-chat");
  });

  it("uses the credential of the administrator, and UIS_API_KEY only without one", async () => {
    const administrator = await uis(["usage"], { env: { ...env, UIS_API_KEY: "sk-uis-wrong" } });
    expect(administrator).toMatchObject({ code: 0, stderr: "" });
    const nowhere = { UIS_URL: service.http, UIS_DATA_DIR: "/nowhere" };
    expect(await uis(["usage"], { env: { ...nowhere, UIS_API_KEY: service.key } })).toMatchObject({ code: 0 });
    const wrong = await uis(["usage"], { env: { ...nowhere, UIS_API_KEY: "sk-uis-wrong" } });
    expect(wrong.stderr).toContain("the credential in UIS_API_KEY");
  });

  it("reports that there is no usage, and rejects an invalid day", async () => {
    expect(await json(["usage", "--to", "2020-01-02", "--from", "2020-01-01"])).toEqual([]);
    const bad = await uis(["usage", "--from", "monday"], { env });
    expect(bad.code).toBe(2);
    expect(bad.stderr).toContain("2026-01-31");
  });
});

describe("uis thresholds", () => {
  it("adds, lists and deletes thresholds, with the field names of the API (USE-4)", async () => {
    const limits = ["--metric", "tokens", "--period", "month", "--limit", "1000"];
    const added = (await json([
      "thresholds",
      "add",
      ...limits,
      "--percents",
      "50,100",
      "--action",
      "refuse",
    ])) as Record<string, unknown>;
    expect(added).toMatchObject({
      account: "default",
      api_key_id: null,
      metric: "METRIC_TOKENS",
      period: "PERIOD_MONTH",
      limit: 1_000,
      percents: [50, 100],
      action: "ACTION_REFUSE",
    });
    expect(((await json(["thresholds", "list"])) as Record<string, unknown>[]).map(({ id }) => id)).toEqual([
      added["id"],
    ]);
    expect(await json(["thresholds", "rm", String(added["id"])])).toEqual({
      ...added,
      used: expect.any(Number),
      deleted: true,
    });
    expect(await json(["thresholds", "list"])).toEqual([]);
    expect((await uis(["thresholds", "list"], { env })).stderr).toBe(
      "there is no threshold: uis thresholds add creates one\n",
    );
    expect((await uis(["thresholds", "rm", String(added["id"])], { env })).code).toBe(1);
  });

  it("accepts the spelling of threshold objects, too, such as METRIC_TOKENS", async () => {
    const names = { metric: "METRIC_COST", period: "PERIOD_DAY", action: "ACTION_NOTIFY" };
    const options = Object.entries(names).flatMap(([option, name]) => [`--${option}`, name]);
    const added = (await json(["thresholds", "add", ...options, "--limit", "5"])) as Record<string, unknown>;
    expect(added).toMatchObject(names);
    await json(["thresholds", "rm", String(added["id"])]);
    const wrong = ["thresholds", "add", "--metric", "METRIC_COSTS", "--period", "day", "--limit", "5"];
    const { code, stderr } = await uis(wrong, { env });
    expect(code).toBe(2);
    expect(stderr).toContain("Allowed choices are tokens, requests, cost");
  });

  it("rejects a limit that is not a number with exit code 2", async () => {
    const { code } = await uis(["thresholds", "add", "--metric", "cost", "--period", "day", "--limit", "much"], {
      env,
    });
    expect(code).toBe(2);
  });
});
