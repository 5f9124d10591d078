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
  it("prints [] for a good file", async () => {
    await writeFile(join(cwd, "uis.yaml"), good);
    expect(await uis(["config", "check", "--json"], { cwd })).toEqual({ code: 0, stdout: "[]\n", stderr: "" });
    expect((await uis(["config", "check"], { cwd })).stdout).toBe(`${join(cwd, "uis.yaml")} is fine.\n`);
  });

  it("prints every fault with its place and a hint, and exits 2", async () => {
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
});

it("uis config schema prints a JSON Schema that accepts good files and refuses bad ones", async () => {
  const { code, stdout } = await uis(["config", "schema"], { cwd });
  expect(code).toBe(0);
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(stdout) as object);
  expect(validate(parse(good))).toBe(true);
  expect(validate(parse(bad))).toBe(false);
});

it("uis config show prints what applies, in a form that is a configuration again", async () => {
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

describe("the command line", () => {
  it("exits 2 for wrong usage and 0 for help and version", async () => {
    expect((await uis(["nonsense"], { cwd })).code).toBe(2);
    expect((await uis(["keys", "create", "--name", "x"], { cwd })).code).toBe(2);
    expect((await uis(["keys", "create", "--name", "x", "--scope", "admin"], { cwd })).code).toBe(2);
    expect((await uis(["serve", "--port", "eighty"], { cwd })).code).toBe(2);
    expect((await uis(["serve", "--help"], { cwd })).code).toBe(0);
    expect(await uis(["--version"], { cwd })).toMatchObject({ code: 0, stdout: "0.1.0\n" });
  });
});
