import { resolve } from "node:path";
import type { Step } from "./steps.js";

/** Where vitest leaves one JSON report for each run; ignored by git. */
export const reportsFolder = "test-results";

/** A run of vitest, which leaves a report. */
export interface VitestStep extends Step {
  /** Where vitest's JSON report is after the run. */
  readonly report: string;
}

/**
 * A run of vitest over some of its projects.
 *
 * @param name names the step and its report.
 * @param projects names of the projects in vitest.config.ts.
 * @param node the binary that runs vitest and, through `process.execPath`, the services that tests start.
 * @param leftOut test files that are not run.
 */
export function vitestStep(
  name: string,
  projects: readonly string[],
  node = process.execPath,
  leftOut: readonly string[] = [],
): VitestStep {
  const report = `${reportsFolder}/${name.replaceAll(/[^a-z0-9]+/gi, "-")}.json`;
  const args = [
    resolve("node_modules/vitest/vitest.mjs"),
    "run",
    ...projects.flatMap((project) => ["--project", project]),
    ...leftOut.flatMap((file) => ["--exclude", file]),
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  return { name, command: node, args, report };
}

/** The same run of a few of its files only, one after the other; its report lies beside the first. */
export function secondTry(step: VitestStep, files: readonly string[]): VitestStep {
  const report = step.report.replace(/\.json$/, "-again.json");
  const args = step.args.map((argument) =>
    argument.startsWith("--outputFile.json=") ? `--outputFile.json=${report}` : argument,
  );
  return { ...step, name: `${step.name}, once more`, args: [...args, "--maxWorkers=1", ...files], report };
}

/** What `npm run check` and `npm test` have in common. */
export function checkSteps(): (Step | VitestStep)[] {
  return [
    { name: "generated code", command: process.execPath, args: ["--import", "tsx", "scripts/generated.ts"] },
    { name: "lint", command: "npm", args: ["run", "--silent", "lint"] },
    { name: "types", command: "npm", args: ["run", "--silent", "types"] },
    vitestStep("unit and suites", ["unit", "suites"]),
  ];
}
