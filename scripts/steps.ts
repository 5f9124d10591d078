import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { npmCommand } from "../src/lib/npm-client.js";

/** Folder of vitest's JSON reports, one per run; ignored by git. */
export const reportsFolder = "test-results";

/** One command of a longer check. */
export interface Step {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A run of vitest. */
export interface VitestStep extends Step {
  /** Path of vitest's JSON report after the run. */
  readonly report: string;
}

export interface StepResult {
  readonly name: string;
  readonly passed: boolean;
  readonly seconds: number;
}

/** A step that runs a script of package.json. */
export function npmRun(script: string): Step {
  const [command, ...npm] = npmCommand(process.env);
  return { name: script, command, args: [...npm, "run", "--silent", script] };
}

/** Compares `gen/` with the generator's output for `proto/`. */
export const generatedCode: Step = {
  name: "generated code",
  command: process.execPath,
  args: ["--import", "tsx", "scripts/generated.ts"],
};

/** Checks that only read the sources. */
export const staticChecks: readonly Step[] = [npmRun("lint"), npmRun("types")];

/**
 * A run of vitest over some of its projects.
 *
 * @param name names the step and its report.
 * @param options.projects names of projects in vitest.config.ts; default: all.
 * @param options.node the binary that runs vitest and, through `process.execPath`, the services that tests start.
 * @param options.except excluded test files.
 */
export function vitestStep(
  name: string,
  options: { readonly projects?: readonly string[]; readonly node?: string; readonly except?: readonly string[] } = {},
): VitestStep {
  const { projects = [], node = process.execPath, except = [] } = options;
  const report = `${reportsFolder}/${name.replaceAll(/[^a-z0-9]+/gi, "-")}.json`;
  const args = [
    resolve("node_modules/vitest/vitest.mjs"),
    "run",
    ...projects.flatMap((project) => ["--project", project]),
    ...except.flatMap((file) => ["--exclude", file]),
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  return { name, command: node, args, report };
}

/** Runs steps one after another, also after a failure, so that one run shows everything. */
export async function runSteps(steps: readonly Step[], output: "live" | "at the end" = "live"): Promise<StepResult[]> {
  const results: StepResult[] = [];
  for (const step of steps) results.push(await runStep(step, output));
  return results;
}

/** Runs a step. Its output goes to the terminal live or, for concurrent steps, in one piece when the step has ended. */
export async function runStep(step: Step, output: "live" | "at the end" = "live"): Promise<StepResult> {
  const startedAtMs = performance.now();
  if (output === "live") console.log(`\n== ${step.name}`);
  const child = spawn(step.command, step.args, {
    stdio: output === "live" ? "inherit" : ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...step.env },
  });
  const pieces: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (piece: Buffer) => pieces.push(piece));
  const fate = await new Promise<string>((ended) => {
    child.on("error", ({ message }) => ended(message));
    child.on("close", (code, signal) => ended(code === 0 ? "ok" : `exit ${code ?? signal}`));
  });
  const seconds = (performance.now() - startedAtMs) / 1000;
  const said = Buffer.concat(pieces).toString();
  if (output === "at the end") console.log(`\n== ${step.name}\n${said}`);
  console.log(`== ${step.name}: ${fate}, ${seconds.toFixed(1)} s`);
  return { name: step.name, passed: fate === "ok", seconds };
}
