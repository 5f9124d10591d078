/**
 * All suites in one command. `ci` runs reduced counts within 25 minutes on two cores, `long` the full ones.
 * The last line of the output is `N passed, N failed`, with `, N skipped` where tests were skipped.
 *
 *   npm test            tier ci
 *   npm run test:long   tier long
 */
import { rmSync } from "node:fs";
import { relative } from "node:path";
import { provideNode24 } from "./node24.js";
import { providePrograms } from "./programs.js";
import { reportCoverage } from "./rule-coverage.js";
import { runStep, type Step } from "./steps.js";
import { checkSteps, reportsFolder, secondTry, type VitestStep, vitestStep } from "./suites.js";
import {
  afterSecondTry,
  countTests,
  failedFiles,
  failedTests,
  type ReportedTest,
  readReport,
  type TestReport,
} from "./test-report.js";

const tier = process.argv[2];
if (tier !== "ci" && tier !== "long") {
  console.error("usage: tsx scripts/test.ts ci|long");
  process.exit(2);
}

/**
 * Minutes of what another Node does not change: what the engine answers, snippets in other languages, requests that are
 * made up from the document.
 */
const sameOnAnyNode = [
  "test/conformance/llama/*.test.ts",
  "test/conformance/webhooks/snippets.test.ts",
  "test/conformance/openapi/fuzz.test.ts",
];

/** A machine that stalls makes one or two files red; more of them is a fault, which a second try would only hide. */
const filesTriedAgain = 3;

const reports: TestReport[] = [];
/** Names of what failed and has no test to be counted as: a lint error, a run that crashed. */
const failedSteps: string[] = [];
/** Red at first, green in the second try. */
const unsteady: ReportedTest[] = [];

const build: Step = { name: "build", command: "npm", args: ["run", "--silent", "build"] };
const steps: (Step | VitestStep)[] = [
  ...checkSteps(),
  build,
  vitestStep("conformance, integration and e2e", ["conformance", "integration", "e2e"]),
  vitestStep("the dashboard in a browser", ["browser"]),
  vitestStep("real models", ["model"]),
];
rmSync(reportsFolder, { recursive: true, force: true });
if (!providePrograms()) failedSteps.push("programs");
const node24 = provideNode24();
if (node24 !== null) steps.push(vitestStep("conformance on Node 24", ["conformance"], node24, sameOnAnyNode));
else if (process.env["CI"] === "true") failedSteps.push("Node 24");
else console.log("Node 24 is not here (npm brings it on Linux x64), so the second run of conformance is left out");

/** From then on tests run what was built. */
let isBuilt = false;
for (const step of steps) {
  const ready = { ...step, env: { UIS_TEST_TIER: tier, UIS_TEST_BUILD: isBuilt ? "1" : "0" } };
  if ("report" in ready) runTests(ready);
  else if (!runStep(ready)) failedSteps.push(step.name);
  else isBuilt ||= step === build;
}

console.log("\n== rule coverage");
if (!reportCoverage(reportsFolder)) failedSteps.push("rule coverage");

tell("failed", failedTests(reports));
for (const file of reports.flatMap((report) => report.brokenFiles))
  console.log(`\nfailed as a file: ${relative(".", file)}`);
tell("failed once, passed when its file was run alone (an unsteady test is a defect to look into)", unsteady);
if (failedSteps.length > 0) console.log(`\nfailed beside the tests: ${failedSteps.join(", ")}`);
const counts = countTests(reports);
const failures = counts.failed + failedSteps.length;
console.log(`\n${counts.passed} passed, ${failures} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exitCode = failures === 0 ? 0 : 1;

/** Runs a step of tests; the few files in which something failed get a second try, alone on the machine. */
function runTests(step: VitestStep): void {
  const passed = runStep(step);
  const first = readReport(step.report);
  const red = first === undefined ? [] : failedFiles(first);
  if (first === undefined || (!passed && red.length === 0)) failedSteps.push(step.name);
  if (first === undefined) return;
  if (red.length === 0 || red.length > filesTriedAgain) {
    reports.push(first);
    return;
  }
  const again = secondTry(step, red);
  const passedAgain = runStep(again);
  const second = readReport(again.report);
  if (second === undefined) failedSteps.push(again.name);
  const last = second === undefined ? first : afterSecondTry(first, second);
  reports.push(last);
  if (!passedAgain && second !== undefined && failedFiles(second).length === 0) failedSteps.push(again.name);
  const stillRed = new Set(failedTests([last]).map(nameOf));
  unsteady.push(...failedTests([first]).filter((test) => !stillRed.has(nameOf(test))));
}

function nameOf(test: ReportedTest): string {
  return `${relative(".", test.file)} > ${test.fullName}`;
}

/** The end of the output says what was red and why, as the middle of it is thousands of lines away. */
function tell(fate: string, tests: readonly ReportedTest[]): void {
  for (const test of tests) {
    console.log(`\n${fate}: ${nameOf(test)}`);
    for (const message of test.messages) console.log(withoutTheRunner(message));
  }
}

/** A failure without the frames of vitest, and without the rest of a difference that is longer than a screen. */
function withoutTheRunner(message: string): string {
  const lines = message.split("\n").filter((line) => !line.includes("/node_modules/"));
  return lines.slice(0, 40).join("\n");
}
