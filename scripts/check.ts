/** Checks before a commit, in minutes: generated code, lint, types, unit tests and shared suites. */
import { rmSync } from "node:fs";
import { generatedCode, reportsFolder, runSteps, staticChecks, vitestStep } from "./steps.js";

rmSync(reportsFolder, { recursive: true, force: true });
const tests = vitestStep("unit and suites", { projects: ["unit", "suites"] });
const results = await runSteps([generatedCode, ...staticChecks, tests]);
const failed = results.filter(({ passed }) => !passed).map(({ name }) => name);
console.log(failed.length === 0 ? "\ncheck: all good" : `\ncheck: failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
