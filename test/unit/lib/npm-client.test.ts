import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { NpmError, npmCommand, runNpm } from "../../../src/lib/npm-client.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-npm-"));
});
afterEach(() => rm(folder, { recursive: true }));

async function put(path: string, text = ""): Promise<string> {
  const file = join(folder, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  return file;
}

/** Runs a program as if it were npm. */
async function runAs(program: string, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<string> {
  const npm_execpath = await put("npm-cli.js", program);
  const signal = options.signal ?? new AbortController().signal;
  return await runNpm(["pack", "x"], {
    env: { npm_execpath },
    cwd: folder,
    timeoutMs: options.timeoutMs ?? 30_000,
    signal,
  });
}

describe("npmCommand", () => {
  const program = "node_modules/npm/bin/npm-cli.js";

  it("starts npm's JavaScript file with Node on Windows, because npm.cmd needs a shell", async () => {
    const expected = await put(`node/${program}`);
    const windows = { execPath: join(folder, "node/node.exe"), platform: "win32" } as const;
    expect(npmCommand({}, windows)).toEqual([windows.execPath, expected]);
    // No npm is in the installation of Node, as with a version manager.
    const other = { ...windows, execPath: join(folder, "other/node.exe") };
    const shim = dirname(await put("node/npm.cmd"));
    expect(npmCommand({ Path: ["/none", shim].join(delimiter) }, other)).toEqual([other.execPath, expected]);
  });

  it("is found in Node's installation or on the PATH on other systems", async () => {
    const beside = await put(`usr/lib/${program}`);
    const unix = { execPath: join(folder, "usr/bin/node"), platform: "linux" } as const;
    expect(npmCommand({}, unix)).toEqual([unix.execPath, beside]);
    const cli = await put("opt/npm-cli.js");
    await mkdir(join(folder, "bin"));
    await symlink(cli, join(folder, "bin/npm"));
    const other = { ...unix, execPath: join(folder, "none/bin/node") };
    expect(npmCommand({ PATH: join(folder, "bin") }, other)).toEqual([other.execPath, cli]);
    expect(() => npmCommand({ PATH: "" }, other)).toThrow("npm was not found");
  });
});

describe("runNpm", () => {
  it("returns the output", async () => {
    expect(await runAs("console.log(process.argv.slice(2).join())")).toBe("pack,x\n");
  });

  it("fails with npm's own error lines", async () => {
    const program = `console.error("npm warn old\\nnpm error code E404\\nnpm error A complete log of this run: /x"); process.exit(1)`;
    await expect(runAs(program)).rejects.toThrow(new NpmError("npm failed: code E404"));
  });

  it("ends npm after the time limit and at an abort", async () => {
    const forever = "setInterval(() => {}, 1000)";
    await expect(runAs(forever, { timeoutMs: 50 })).rejects.toThrow("did not finish within 0.05 s");
    const abort = new AbortController();
    const run = runAs(forever, { signal: abort.signal });
    abort.abort(new Error("stopped by the user"));
    await expect(run).rejects.toThrow("stopped by the user");
  });
});
