import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { missingProgram } from "./missing-program.js";

const run = promisify(execFile);

/**
 * The path of a program that Go builds from a module. It is built once per version, which takes some minutes of processor
 * time and needs the module proxy, and kept in the user's cache folder. Throws the error that skips the tests if Go is absent or
 * too old for the module.
 */
export async function goProgram(path: string, version: string): Promise<string> {
  const name = basename(path);
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "uis-test-programs");
  const home = join(cache, `${name}-${version}`);
  const program = join(home, name);
  if (existsSync(program)) return program;
  await run("go", ["version"]).catch(() => {
    throw missingProgram(`go is not installed, which builds ${name}`);
  });
  await mkdir(cache, { recursive: true });
  const draft = await mkdtemp(`${home}.`);
  try {
    await run("go", ["install", `${path}@${version}`], { env: { ...process.env, GOBIN: draft }, cwd: draft });
    // Another test file may have built the same program first.
    if (!existsSync(program)) await rename(draft, home);
  } catch (error) {
    throw missingProgram(`go cannot build ${name} ${version}: ${error instanceof Error ? error.message : error}`);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return program;
}
