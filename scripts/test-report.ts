import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What the scripts need of a report of vitest's `json` reporter. */
export interface TestReport {
  readonly tests: readonly { readonly fullName: string; readonly status: string }[];
  /** Test files that could not even be collected. */
  readonly brokenFiles: readonly string[];
}

interface ReportFile {
  testResults: {
    name: string;
    status: string;
    assertionResults: { fullName: string; status: string }[];
  }[];
}

export function parseReport(json: string): TestReport {
  const { testResults } = JSON.parse(json) as ReportFile;
  return {
    tests: testResults.flatMap((file) => file.assertionResults.map(({ fullName, status }) => ({ fullName, status }))),
    brokenFiles: testResults
      .filter((file) => file.status === "failed" && file.assertionResults.every((test) => test.status !== "failed"))
      .map((file) => file.name),
  };
}

/** All `*.json` reports of a folder; none when the folder does not exist. */
export function readReports(folder: string): TestReport[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .map((name) => parseReport(readFileSync(join(folder, name), "utf8")));
}

export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** A file that could not be collected counts as one failure. */
export function countTests(reports: readonly TestReport[]): Counts {
  const tests = reports.flatMap((report) => report.tests);
  const passed = tests.filter((test) => test.status === "passed").length;
  const failed = tests.filter((test) => test.status === "failed").length;
  const broken = reports.reduce((sum, report) => sum + report.brokenFiles.length, 0);
  return { passed, failed: failed + broken, skipped: tests.length - passed - failed };
}
