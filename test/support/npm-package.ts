import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { NpmError, runNpm } from "../../src/lib/npm-client.js";
import { missingProgram } from "./missing-program.js";

const cache = resolve(".cache/npm");
/** Long enough for packages of 200 MB over a slow link. */
const timeoutMs = 600_000;

/**
 * The `node_modules` with the packages of a folder's lock file. They are installed once per content of that file, without
 * their install scripts, and kept in `.cache`. Throws the error that skips the tests if npm cannot install them.
 */
export async function npmPackages(folder: string): Promise<string> {
  const lock = await readFile(join(folder, "package-lock.json"));
  const home = join(cache, createHash("sha256").update(lock).digest("hex").slice(0, 12));
  const modules = join(home, "node_modules");
  if (existsSync(modules)) return modules;
  const draft = `${home}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  try {
    for (const file of ["package.json", "package-lock.json"]) await copyFile(join(folder, file), join(draft, file));
    const signal = new AbortController().signal;
    await runNpm(["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
      env: process.env,
      cwd: draft,
      timeoutMs,
      signal,
    });
    // Another test file may have installed the same packages first.
    if (!existsSync(modules)) await rename(draft, home);
  } catch (error) {
    if (error instanceof NpmError)
      throw missingProgram(`the packages of ${folder} cannot be installed: ${error.message}`);
    throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return modules;
}
