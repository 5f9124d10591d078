import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { uis } from "../../../support/cli-run.js";

it("uis config init writes a valid configuration, which stays valid when its comments are uncommented", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "uis-init-"));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  const file = join(cwd, "uis.yaml");
  const written = await uis(["config", "init"], { cwd });
  expect(written).toEqual({
    code: 0,
    stdout: `${file} is written. Edit it, then: uis config check, uis serve\n`,
    stderr: "",
  });
  expect(await uis(["config", "check"], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("is valid"),
  });
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replace(/^# (?!yaml-)( *[a-z0-9_-]+:| +- )/gm, "$1"));
  expect(await uis(["config", "check", "--json"], { cwd })).toMatchObject({ code: 0, stdout: "[]\n" });
  const shown = JSON.parse((await uis(["config", "show", "--json"], { cwd })).stdout) as object;
  expect(shown).toMatchObject({ models: [{ id: "qwen3-0.6b", slots: 4 }], log: { level: "info" } });
  expect(await uis(["config", "init"], { cwd })).toMatchObject({ code: 1, stdout: "" });
});
