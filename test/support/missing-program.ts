import { spawnSync } from "node:child_process";
import { type RunnerTask, TestRunner } from "vitest";

const errorName = "MissingProgram";

const found = new Set<string>();

/** Throws if the program is missing: the test, or all tests of the suite whose hook calls this, are skipped by name. */
export function needsInstalled(program: string): void {
  if (!found.has(program) && spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0) found.add(program);
  if (!found.has(program)) throw missingProgram(`${program} is not installed`);
}

/** An error with this reason, which skips the test or all tests of the suite whose hook throws it. */
export function missingProgram(reason: string): Error {
  return Object.assign(new Error(reason), { name: errorName });
}

/** Vitest's runner, which turns a failure for a missing program into a skip. With `CI=true` a skip fails the run. */
export default class SkippingRunner extends TestRunner {
  override onAfterRunTask(test: RunnerTask): void {
    skipWithoutProgram(test);
    super.onAfterRunTask(test);
  }

  override async onAfterRunSuite(suite: Parameters<TestRunner["onAfterRunSuite"]>[0]): Promise<void> {
    skipWithoutProgram(suite);
    await super.onAfterRunSuite(suite);
  }
}

/** Turns a failure for a missing program into a skip, also if cleanup hooks have failed after it. */
export function skipWithoutProgram({ result }: Pick<RunnerTask, "result">): void {
  const missing = result?.errors?.find(({ name }) => name === errorName);
  if (result === undefined || missing === undefined) return;
  delete result.errors;
  Object.assign(result, { state: "skip", note: missing.message });
}
