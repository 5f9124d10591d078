import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPython } from "../../support/python-venv.js";
import { run, snippetProject } from "./snippet-project.js";
import { expectedLines, vectorLines } from "./vectors.js";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-snippets-"));
});
afterAll(() => rm(folder, { recursive: true }));

function has(...probe: readonly [string, ...string[]]): boolean {
  const [program, ...args] = probe;
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}

describe("the documented snippet accepts every valid vector and rejects every tampered one (WH-15, WH-16, WH-17)", () => {
  // Needs python3.
  it.skipIf(!hasPython)("in Python", async () => {
    const home = await snippetProject(folder, "python", "Python", "webhook.py");
    expect(await run(home, ["python3", "check.py"], vectorLines)).toBe(expectedLines);
  });

  // Needs Go; the first build on a machine compiles its standard library.
  it.skipIf(!has("go", "version"))("in Go", { timeout: 300_000 }, async () => {
    const home = await snippetProject(folder, "go", "Go", "webhook/webhook.go");
    await run(home, ["go", "build", "-o", "check", "."]);
    expect(await run(home, [join(home, "check")], vectorLines)).toBe(expectedLines);
  });

  // Needs a JDK of version 17 or newer.
  it.skipIf(!has("javac", "--release", "17", "-version"))("in Java", { timeout: 120_000 }, async () => {
    const home = await snippetProject(folder, "java", "Java", "Webhook.java");
    await run(home, ["javac", "--release", "17", "Check.java", "Webhook.java"]);
    expect(await run(home, ["java", "-cp", home, "Check"], vectorLines)).toBe(expectedLines);
  });

  // Needs Rust, and the crate registry on the first run.
  it.skipIf(!has("cargo", "--version"))("in Rust", { timeout: 300_000 }, async () => {
    const home = await snippetProject(folder, "rust", "Rust", "src/webhook.rs");
    await run(home, ["cargo", "build", "--quiet", "--locked"]);
    expect(await run(home, [join(home, "target/debug/webhook-check")], vectorLines)).toBe(expectedLines);
  });
});
