/**
 * All suites in one command. `ci` takes at most 10 minutes on two cores; `long` adds the files `*.long.test.ts` (soaks, load,
 * schedules, crashes, other languages), real models and other Nodes, and runs repeated tests with full counts.
 *
 *   npm test            tier ci
 *   npm run test:long   tier long
 *
 * A failed test fails the run: none is retried. The output ends with the time that each step took, all failures,
 * and the line `N passed, N failed`, with `, N skipped` where tests were skipped; with `CI=true` a skipped test is a failure.
 */
import { rmSync } from "node:fs";
import { provideNode24 } from "./node24.js";
import { providePrograms } from "./programs.js";
import { reportCoverage } from "./rule-coverage.js";
import {
  generatedCode,
  npmRun,
  reportsFolder,
  runStep,
  runSteps,
  type StepResult,
  staticChecks,
  type VitestStep,
  vitestStep,
} from "./steps.js";
import { faultsOf, nameOf, outcomeOf, readReport, summaryLine, type TestReport } from "./test-report.js";

const tier = process.argv[2];
if (tier !== "ci" && tier !== "long") {
  console.error("usage: tsx scripts/test.ts ci|long");
  process.exit(2);
}
const isCi = process.env["CI"] === "true";

/**
 * Not repeated on Node 24, because they do not depend on the version of Node: answers of the engine, snippets in other
 * languages, requests that are generated from the OpenAPI document, third-party programs.
 */
const sameOnAnyNode = [
  "test/conformance/agents/*.test.ts",
  "test/conformance/llama/*.test.ts",
  "test/conformance/webhooks/snippets*.test.ts",
  "test/conformance/openapi/fuzz*.test.ts",
];

const slowestShown = 10;

const reports: TestReport[] = [];
const results: StepResult[] = [];
/** Names of failed steps, such as lint or a vitest run that crashed. */
const failedSteps: string[] = [];

rmSync(reportsFolder, { recursive: true, force: true });
// Installed before the tests, because one of them runs a client on it.
const node24 = tier === "long" ? provideNode24() : null;
await Promise.all([
  timed("programs", () => providePrograms(tier)),
  runSteps([generatedCode, npmRun("build")], "at the end").then(note),
]);
// From here on a build exists; the processes that tests start run it.
const env = { UIS_TEST_TIER: tier, UIS_TEST_BUILD: "1" };
// Static checks run concurrently with the tests, which do not always keep both cores busy.
const [, checked] = await Promise.all([runTests(vitestStep("tests")), runSteps(staticChecks, "at the end")]);
note(checked);
if (tier === "long") await runTestsOnNode24();
await timed("rule coverage", async () => reportCoverage(reportsFolder));
tellTheEnd();

async function runTests(step: VitestStep): Promise<void> {
  const result = await runStep({ ...step, env });
  const report = readReport(step.report);
  results.push(result);
  if (report !== undefined) reports.push(report);
  const hasRed = report !== undefined && (report.brokenFiles.length > 0 || outcomeOf([report]).failed.length > 0);
  if (!result.passed && !hasRed) failedSteps.push(step.name);
}

async function runTestsOnNode24(): Promise<void> {
  if (node24 !== null) {
    const options = { projects: ["conformance"], node: node24, except: sameOnAnyNode };
    await runTests(vitestStep("conformance on Node 24", options));
  } else if (isCi) failedSteps.push("Node 24");
  else
    console.log("Node 24 is not available (npm installs it on Linux x64), so the second run of conformance is skipped");
}

async function timed(name: string, run: () => Promise<boolean>): Promise<void> {
  console.log(`\n== ${name}`);
  const startedAtMs = performance.now();
  const passed = await run();
  note([{ name, passed, seconds: (performance.now() - startedAtMs) / 1000 }]);
}

function note(ended: readonly StepResult[]): void {
  results.push(...ended);
  failedSteps.push(...ended.flatMap(({ name, passed }) => (passed ? [] : [name])));
}

/** Repeats failures and causes at the end of the output, which is thousands of lines long. */
function tellTheEnd(): void {
  console.log("\n== time");
  for (const { name, seconds } of results) console.log(`${seconds.toFixed(1).padStart(8)} s  ${name}`);
  console.log(`${(performance.now() / 1000).toFixed(1).padStart(8)} s  in all`);
  const byFile = reports.flatMap(({ secondsByFile }) => [...secondsByFile]).toSorted(([, a], [, b]) => b - a);
  console.log(`the ${slowestShown} slowest of ${byFile.length} test files:`);
  for (const [file, seconds] of byFile.slice(0, slowestShown)) {
    console.log(`${seconds.toFixed(1).padStart(8)} s  ${file}`);
  }
  const outcome = outcomeOf(reports);
  const faults = faultsOf(outcome, failedSteps, isCi);
  if (!isCi) for (const test of outcome.skipped) console.log(`\nskipped: ${nameOf(test)}`);
  for (const { title, lines } of faults) {
    console.log(`\n${title}`);
    for (const line of lines) console.log(withoutTheRunner(line));
  }
  console.log(`\n${summaryLine(outcome, faults)}`);
  process.exitCode = faults.length === 0 ? 0 : 1;
}

/** A failure without the frames of vitest, and without the rest of a difference that is longer than a screen. */
function withoutTheRunner(message: string): string {
  const lines = message.split("\n").filter((line) => !line.includes("/node_modules/"));
  return lines.slice(0, 40).join("\n");
}
