/** What a developer runs before a commit, in minutes: generated code, lint, types, unit tests and shared suites. */
import { rmSync } from "node:fs";
import { runSteps } from "./steps.js";
import { checkSteps, reportsFolder } from "./suites.js";

rmSync(reportsFolder, { recursive: true, force: true });
const failed = runSteps(checkSteps());
console.log(failed.length === 0 ? "\ncheck: all good" : `\ncheck: failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
