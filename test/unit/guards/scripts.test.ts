import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Runs a script of this repository in a folder that contains only these files. */
function runIn(files: Readonly<Record<string, string>>, script: string): { status: number | null; output: string } {
  const folder = mkdtempSync(join(tmpdir(), "script-"));
  folders.push(folder);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const args = ["--import", import.meta.resolve("tsx"), resolve(script)];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  return { status, output: stdout + stderr };
}

// Each case starts processes, which is slow on a machine that is busy with other tests.
describe("scripts/generated.ts", { timeout: 60_000 }, () => {
  const withGenerator = (command: string) => ({
    "package.json": JSON.stringify({ scripts: { generate: command } }),
    "gen/a_pb.js": "as generated\n",
  });

  it("passes when the generator changes nothing", () => {
    expect(runIn(withGenerator("true"), "scripts/generated.ts").status).toBe(0);
  });

  it("fails when the generator changes, adds or removes a file", () => {
    for (const command of ["echo new > gen/a_pb.js", "echo more > gen/b_pb.js", "rm gen/a_pb.js"]) {
      const { status, output } = runIn(withGenerator(command), "scripts/generated.ts");
      expect({ command, status, said: output.includes("did not match proto/") }).toEqual({
        command,
        status: 1,
        said: true,
      });
    }
  });

  it("fails when the generator fails", () => {
    expect(runIn(withGenerator("exit 3"), "scripts/generated.ts").status).toBe(1);
  });
});

describe("scripts/rule-coverage.ts", { timeout: 60_000 }, () => {
  const withReport = (title: string, status: string) => ({
    "docs/rules/x.md": "| SSE-1 | M | transports | A stream begins. |\n",
    "test-results/unit.json": JSON.stringify({
      testResults: [{ name: "x.test.ts", status: "passed", assertionResults: [{ fullName: title, status }] }],
    }),
  });

  it("passes when every required rule has a passing test", () => {
    expect(runIn(withReport("begins (SSE-1)", "passed"), "scripts/rule-coverage.ts").status).toBe(0);
  });

  it("fails if a rule has no passing test, or an id has no sentence, and names it", () => {
    const skipped = runIn(withReport("begins (SSE-1)", "skipped"), "scripts/rule-coverage.ts");
    expect(skipped.status).toBe(1);
    expect(skipped.output).toContain("no passing test cites SSE-1");
    const unexplained = runIn(withReport("begins (SSE-1, SSE-2)", "passed"), "scripts/rule-coverage.ts");
    expect(unexplained.status).toBe(1);
    expect(unexplained.output).toContain("no sentence in docs/rules for SSE-2");
  });
});
