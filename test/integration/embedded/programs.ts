import { spawnSync } from "node:child_process";
import type { TestContext } from "vitest";

/** Skips a test that needs a program which is not installed; with `CI=true` it fails instead. */
export function needsProgram(context: TestContext, name: string, debianPackage: string): void {
  if (spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0) return;
  if (process.env["CI"] === "true") throw new Error(`${name} is not installed (Debian: ${debianPackage})`);
  context.skip(`${name} is not installed (Debian: ${debianPackage})`);
}
