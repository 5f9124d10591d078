import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { uisProgram } from "../../support/program.js";
import { type ServeProcess, spawnServe } from "../../support/service-process.js";

const command = [process.execPath, ...uisProgram];

/** Runs a command without a terminal and with an empty stdin. */
function start(words: readonly string[], env: Record<string, string> = {}): ServeProcess {
  return spawnServe({ command, args: words, env, cwd: "/" });
}

async function ended(running: ServeProcess) {
  return { code: await running.exited, stdout: running.stdout(), stderr: running.stderr() };
}

describe("uis as a process", () => {
  it("returns its exit code, writes its answer to stdout and all else to stderr, and never prompts", async () => {
    const nobody = { UIS_URL: "http://127.0.0.1:1", UIS_ADMIN_TOKEN: "some-token-of-an-administrator" };
    const [done, failed, wrong] = await Promise.all([
      ended(start(["config", "check", "--json"])),
      ended(start(["keys", "list", "--json"], nobody)),
      ended(start(["keyz"])),
    ]);
    expect(done).toEqual({ code: 0, stdout: "[]\n", stderr: "" });
    expect(failed).toEqual({ code: 1, stdout: "", stderr: expect.stringMatching(/^uis: no service answers .*\n$/) });
    expect(wrong).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(/^uis: unknown command .*\n$/) });
  });

  it("writes no colour, whether colours are forced or disabled", async () => {
    const said = await Promise.all([
      ended(start(["config", "show"], { FORCE_COLOR: "1" })),
      ended(start(["keys", "create", "--help"], { FORCE_COLOR: "1" })),
      ended(start(["keys", "create", "--help"], { NO_COLOR: "1" })),
    ]);
    for (const { code, stdout, stderr } of said) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(stdout).not.toContain("\u001b");
    }
    expect(said[1]).toEqual(said[2]);
  });

  it.each([uisProgram, [fileURLToPath(new URL("../../../scripts/start.mjs", import.meta.url))]])(
    "reports in one line that Node is too old, and exits 2 (%#)",
    async (...program) => {
      const folder = await mkdtemp(join(tmpdir(), "uis-node-"));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      const older = join(folder, "older.cjs");
      await writeFile(
        older,
        'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.20.4" } });',
      );
      const command = [process.execPath, "--require", older, ...program];
      const { code, stdout, stderr } = await ended(spawnServe({ command, args: ["config", "schema"], cwd: folder }));
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toMatch(/^(uis: )?Node 18\.20\.4 is too old: use Node 20\.19 or newer\.?\n$/);
    },
  );

  it("exits silently if the reader closes the pipe", async () => {
    const running = start(["config", "schema"]);
    running.child.stdout?.destroy();
    await once(running.child, "exit");
    expect(running.child.exitCode).toBe(0);
    expect(running.stderr()).toBe("");
  });
});
