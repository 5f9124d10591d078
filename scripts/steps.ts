import { spawnSync } from "node:child_process";

/** One command of a longer check. */
export interface Step {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a step with its output on the terminal and says how long it took; true when it exited 0. */
export function runStep(step: Step): boolean {
  console.log(`\n== ${step.name}`);
  const startedAtMs = performance.now();
  const result = spawnSync(step.command, step.args, { stdio: "inherit", env: { ...process.env, ...step.env } });
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  const passed = result.status === 0;
  const fate = result.error?.message ?? (passed ? "ok" : `exit ${result.status ?? result.signal}`);
  console.log(`== ${step.name}: ${fate}, ${seconds} s`);
  return passed;
}

/** Runs all steps, also after a failure, so that one run shows everything; returns the names of those that failed. */
export function runSteps(steps: readonly Step[]): string[] {
  return steps.filter((step) => !runStep(step)).map((step) => step.name);
}

/** A step that runs a script of package.json. */
export function npmRun(script: string): Step {
  return { name: script, command: "npm", args: ["run", "--silent", script] };
}
