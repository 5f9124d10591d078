import { execFile, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const folder = resolve(".cache/python");

/** Whether this machine can create virtual environments. `npm test` installs missing system packages where permitted. */
export const hasPython = spawnSync("python3", ["-c", "import venv, ensurepip"], { stdio: "ignore" }).status === 0;

/**
 * The interpreter of a virtual environment with the packages of a requirements file, which pins them. It is created once
 * per content of that file and kept in `.cache`; creating it takes some seconds and needs the package registry.
 */
export async function pythonVenv(requirements: string): Promise<string> {
  const content = await readFile(requirements);
  const home = join(folder, createHash("sha256").update(content).digest("hex").slice(0, 12));
  const python = join(home, "bin/python");
  if (await works(python)) return python;
  const draft = `${home}.${process.pid}`;
  await mkdir(folder, { recursive: true });
  await run("python3", ["-m", "venv", draft]);
  await run(join(draft, "bin/python"), ["-m", "pip", "install", "--quiet", "--requirement", requirements]);
  // Another test file may have created the environment first. An environment that works is never replaced.
  if (!(await works(python))) {
    await rm(home, { recursive: true, force: true });
    await rename(draft, home);
  }
  await rm(draft, { recursive: true, force: true });
  return python;
}

/** Whether the environment's Python runs; false if it was removed or replaced. */
function works(python: string): Promise<boolean> {
  return run(python, ["-c", ""]).then(
    () => true,
    () => false,
  );
}
