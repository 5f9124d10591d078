import { execFile } from "node:child_process";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundleSources } from "../../../scripts/bundle.js";

const run = promisify(execFile);

/** Paths of all chunks that a file of the bundle imports statically, directly or through other chunks. */
function startedBy(folder: string, file: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const text = readFileSync(join(folder, file), "utf8");
  for (const [, chunk] of text.matchAll(/\b(?:from|import)\s*"\.\/([\w-]+\.js)"/g)) {
    startedBy(folder, chunk ?? "", seen);
  }
  return seen;
}

describe("the bundle", () => {
  /** Folder of the test's bundle. It is in the repository, because the bundle imports packages of node_modules. */
  const built = join(process.cwd(), `.dist-test-${process.pid}`);
  const bundle = join(built, "bundle");
  beforeAll(() => bundleSources(built));
  afterAll(() => rmSync(built, { recursive: true, force: true }));

  it("loads at most 60 files to start the service, and none of the service for the command line (E-43)", async () => {
    expect(startedBy(bundle, "cli.js").size).toBeGreaterThan(1);
    const serve = readdirSync(bundle).find((name) => /^serve-\w+\.js$/.test(name)) ?? "";
    expect(startedBy(bundle, serve).size).toBeLessThanOrEqual(60);
    expect([...startedBy(bundle, "cli.js")]).not.toContain(serve);
    const { stdout } = await run(process.execPath, [join(built, "app/cli.js"), "--version"]);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it("names files and lines of src in stack traces (E-43)", async () => {
    const program = `
      await import("${join(bundle, "stack-traces.js")}");
      const { verifyWebhook } = await import("${join(built, "lib/webhook-signature.js")}");
      try { verifyWebhook(null); } catch (error) { console.log(error.stack); }`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program]);
    const [, line = ""] = /^ {4}at verifyWebhook \(src\/lib\/webhook-signature\.ts:(\d+):\d+\)$/m.exec(stdout) ?? [];
    const source = readFileSync("src/lib/webhook-signature.ts", "utf8").split("\n");
    expect(source[Number(line) - 1]).toContain("} = options");
  });
});
