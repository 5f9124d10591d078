import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { uis } from "../../support/cli-run.js";

let cwd: string;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-cli-"));
});

afterEach(async () => {
  await rm(cwd, { recursive: true });
});

const good = "models:\n  - id: test-chat\n    engine: scripted\n";
const bad = "models:\n  - id: test-chat\n    engin: scripted\n";

describe("uis config check", () => {
  it("prints [] for a valid file", async () => {
    await writeFile(join(cwd, "uis.yaml"), good);
    expect(await uis(["config", "check", "--json"], { cwd })).toEqual({ code: 0, stdout: "[]\n", stderr: "" });
    expect((await uis(["config", "check"], { cwd })).stdout).toBe(`${join(cwd, "uis.yaml")} is valid.\n`);
  });

  it("prints every problem with its position and a hint, and exits 2", async () => {
    await writeFile(join(cwd, "bad.yaml"), bad);
    const { code, stdout } = await uis(["config", "check", "--config", "bad.yaml", "--json"], { cwd });
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toContainEqual({
      line: 3,
      column: 5,
      path: "models[0].engin",
      message: "unknown setting",
      hint: 'did you mean "engine"?',
    });
    const text = await uis(["config", "check", "bad.yaml"], { cwd });
    expect(text.code).toBe(2);
    expect(text.stdout).toContain(`${join(cwd, "bad.yaml")}:3:5: models[0].engin: unknown setting`);
  });

  it("reports invalid secrets with the problems of the file, and does not show them", async () => {
    const env = {
      UIS_ADMIN_TOKEN: "hunter2",
      UIS_MASTER_KEY_FILE: join(cwd, "gone"),
      HF_TOKEN_FILE: join(cwd, "gone"),
    };
    const fine = await uis(["config", "check", "--json"], { cwd, env });
    expect(fine.code).toBe(2);
    expect(JSON.parse(fine.stdout)).toEqual([
      {
        line: null,
        column: null,
        path: "HF_TOKEN_FILE",
        message: expect.stringContaining("cannot be read"),
        hint: "correct the path, or make the file readable for this user",
      },
      { line: null, column: null, path: "UIS_ADMIN_TOKEN", message: expect.stringContaining("16 to 256"), hint: null },
      {
        line: null,
        column: null,
        path: "UIS_MASTER_KEY_FILE",
        message: expect.stringContaining("cannot be read"),
        hint: "correct the path, or make the file readable for this user",
      },
    ]);
    await writeFile(join(cwd, "bad.yaml"), bad);
    const text = await uis(["config", "check", "bad.yaml"], { cwd, env });
    expect(text.stdout).toContain(`${join(cwd, "bad.yaml")}:3:5: models[0].engin: unknown setting`);
    expect(text.stdout).toContain("UIS_ADMIN_TOKEN: must be 16 to 256 printable characters");
    expect(fine.stdout + text.stdout).not.toContain("hunter2");
  });
});

it("uis config schema prints a JSON Schema that accepts valid files and rejects invalid ones", async () => {
  const { code, stdout } = await uis(["config", "schema"], { cwd });
  expect(code).toBe(0);
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(stdout) as object);
  expect(validate(parse(good))).toBe(true);
  expect(validate(parse(bad))).toBe(false);
});

it("uis config show prints the effective settings as a valid configuration", async () => {
  await writeFile(join(cwd, "uis.yaml"), good);
  const env = { UIS_LIMITS_STALL: "2s", UIS_ADMIN_TOKEN: "a-token-that-must-not-be-shown" };
  const json = await uis(["config", "show", "--json"], { cwd, env });
  const settings = JSON.parse(json.stdout) as { limits: object; models: object[] };
  expect(settings.limits).toMatchObject({ stall: "2s", drain: "2m", body_bytes_max: "20MiB" });
  expect(settings.models).toMatchObject([{ id: "test-chat" }]);
  const text = await uis(["config", "show"], { cwd, env });
  await writeFile(join(cwd, "shown.yaml"), text.stdout);
  expect((await uis(["config", "check", "shown.yaml"], { cwd })).code).toBe(0);
  expect(json.stdout + text.stdout).not.toContain("must-not-be-shown");
});

it("uis config show omits user and password of every address (SEC-18)", async () => {
  await writeFile(
    join(cwd, "uis.yaml"),
    "models: [{ id: m, engine: llama, source: 'https://me:hunter2@models.example.com/m@1.gguf' }]\n",
  );
  for (const [url, shown] of [
    ["rediss://me:hunter2@store:6379/1", "rediss://***@store:6379/1"],
    ["redis://:hunter2/with@signs@store:6379", "redis://***@store:6379"],
    ["me:hunter2@a:6379,b:6379", "***@a:6379,b:6379"],
    ["redis://store:6379", "redis://store:6379"],
  ] as const) {
    const show = (...more: string[]) => uis(["config", "show", ...more], { cwd, env: { REDIS_URL: url } });
    const { code, stdout } = await show("--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      state: { redis_url: shown },
      models: [{ source: "https://***@models.example.com/m@1.gguf" }],
    });
    expect(stdout + (await show()).stdout).not.toContain("hunter2");
  }
});
