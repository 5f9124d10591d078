/**
 * All suites in one command. `ci` runs reduced counts within 25 minutes on two cores, `long` the full ones.
 * The last line of the output is `N passed, N failed`, with `, N skipped` where tests were skipped.
 *
 *   npm test            tier ci
 *   npm run test:long   tier long
 */
import { rmSync } from "node:fs";
import { provideNode24 } from "./node24.js";
import { providePrograms } from "./programs.js";
import { reportCoverage } from "./rule-coverage.js";
import { runStep, type Step } from "./steps.js";
import { checkSteps, reportsFolder, vitestStep } from "./suites.js";
import { countTests, readReports } from "./test-report.js";

const tier = process.argv[2];
if (tier !== "ci" && tier !== "long") {
  console.error("usage: tsx scripts/test.ts ci|long");
  process.exit(2);
}

/** Minutes of killed and weighed engine processes, which another Node does not change. */
const aboutProcesses = ["test/conformance/llama/child-loss.test.ts", "test/conformance/llama/soak.test.ts"];

const steps: Step[] = [
  ...checkSteps(),
  { name: "build", command: "npm", args: ["run", "--silent", "build"] },
  vitestStep("conformance, integration and e2e", ["conformance", "integration", "e2e"]),
  vitestStep("the dashboard in a browser", ["browser"]),
  vitestStep("real models", ["model"]),
];
rmSync(reportsFolder, { recursive: true, force: true });
const failed = providePrograms() ? [] : ["programs"];
const node24 = provideNode24();
if (node24 !== null) steps.push(vitestStep("conformance on Node 24", ["conformance"], node24, aboutProcesses));
else if (process.env["CI"] === "true") failed.push("Node 24");
else console.log("Node 24 is not here (npm brings it on Linux x64), so the second run of conformance is left out");
for (const step of steps) {
  const failuresBefore = countTests(readReports(reportsFolder)).failed;
  const passed = runStep({ ...step, env: { UIS_TEST_TIER: tier } });
  // A failure that shows in a report is counted there; a lint error or a crashed run has no report to be counted in.
  if (!passed && countTests(readReports(reportsFolder)).failed === failuresBefore) failed.push(step.name);
}

console.log("\n== rule coverage");
if (!reportCoverage(reportsFolder)) failed.push("rule coverage");

if (failed.length > 0) console.log(`\nfailed beside the tests: ${failed.join(", ")}`);
const counts = countTests(readReports(reportsFolder));
const failures = counts.failed + failed.length;
console.log(`\n${counts.passed} passed, ${failures} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exitCode = failures === 0 ? 0 : 1;
