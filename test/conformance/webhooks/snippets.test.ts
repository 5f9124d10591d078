import { spawn, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPython } from "../../support/python-venv.js";
import { snippetUnder } from "./snippets.js";
import { expectedLines, vectorLines } from "./vectors.js";

const here = "test/conformance/webhooks";
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-snippets-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Puts the snippet beside the program that runs it. */
async function project(language: string, heading: string, snippetPath: string): Promise<string> {
  const home = join(folder, language);
  await cp(join(here, language), home, { recursive: true });
  await mkdir(dirname(join(home, snippetPath)), { recursive: true });
  await writeFile(join(home, snippetPath), snippetUnder(heading));
  return home;
}

/** Rejects with what the program says when it fails. */
async function run(cwd: string, [program = "", ...args]: readonly string[], input = ""): Promise<string> {
  const child = spawn(program, args, { cwd });
  child.stdin.end(input);
  const ended = new Promise<number | null>((done, fail) => child.once("close", done).once("error", fail));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${stderr}`);
  return stdout;
}

function has(...probe: readonly [string, ...string[]]): boolean {
  const [program, ...args] = probe;
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}

describe("the documented snippet accepts every valid vector and refuses every tampered one (WH-15, WH-16, WH-17)", () => {
  it("in TypeScript", async () => {
    const home = await project("typescript", "TypeScript", "webhook.mts");
    const tsx = resolve("node_modules/tsx/dist/loader.mjs");
    expect(await run(home, [process.execPath, "--import", tsx, "check.mts"], vectorLines)).toBe(expectedLines);
  });

  // Needs python3.
  it.skipIf(!hasPython)("in Python", async () => {
    const home = await project("python", "Python", "webhook.py");
    expect(await run(home, ["python3", "check.py"], vectorLines)).toBe(expectedLines);
  });

  // Needs Go; the first build on a machine compiles its standard library.
  it.skipIf(!has("go", "version"))("in Go", { timeout: 300_000 }, async () => {
    const home = await project("go", "Go", "webhook/webhook.go");
    await run(home, ["go", "build", "-o", "check", "."]);
    expect(await run(home, [join(home, "check")], vectorLines)).toBe(expectedLines);
  });

  // Needs a JDK of version 17 or newer.
  it.skipIf(!has("javac", "--release", "17", "-version"))("in Java", { timeout: 120_000 }, async () => {
    const home = await project("java", "Java", "Webhook.java");
    await run(home, ["javac", "--release", "17", "Check.java", "Webhook.java"]);
    expect(await run(home, ["java", "-cp", home, "Check"], vectorLines)).toBe(expectedLines);
  });

  // Needs Rust, and the crate registry on the first run.
  it.skipIf(!has("cargo", "--version"))("in Rust", { timeout: 300_000 }, async () => {
    const home = await project("rust", "Rust", "src/webhook.rs");
    await run(home, ["cargo", "build", "--quiet", "--locked"]);
    expect(await run(home, [join(home, "target/debug/webhook-check")], vectorLines)).toBe(expectedLines);
  });
});
