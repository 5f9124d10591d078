import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface ReportedTest {
  /** Path of its file, as vitest wrote it. */
  readonly file: string;
  readonly fullName: string;
  readonly status: string;
  /** Why it failed, one text for each assertion; empty for a test that did not fail. */
  readonly messages: readonly string[];
}

/** What the scripts need of a report of vitest's `json` reporter. */
export interface TestReport {
  readonly tests: readonly ReportedTest[];
  /** Test files that could not even be collected. */
  readonly brokenFiles: readonly string[];
}

interface ReportFile {
  testResults: {
    name: string;
    status: string;
    message?: string;
    assertionResults: { fullName: string; status: string; failureMessages?: string[] | null }[];
  }[];
}

export function parseReport(json: string): TestReport {
  const { testResults } = JSON.parse(json) as ReportFile;
  return {
    tests: testResults.flatMap((file) =>
      file.assertionResults.map(({ fullName, status, failureMessages }) => ({
        file: file.name,
        fullName,
        status,
        messages: failureMessages ?? [],
      })),
    ),
    brokenFiles: testResults
      .filter((file) => file.status === "failed" && file.assertionResults.every((test) => test.status !== "failed"))
      .map((file) => file.name),
  };
}

/** The report at a path; undefined when a run ended before it wrote one. */
export function readReport(path: string): TestReport | undefined {
  return existsSync(path) ? parseReport(readFileSync(path, "utf8")) : undefined;
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
  const failed = failedTests(reports).length;
  const broken = reports.reduce((sum, report) => sum + report.brokenFiles.length, 0);
  return { passed, failed: failed + broken, skipped: tests.length - passed - failed };
}

export function failedTests(reports: readonly TestReport[]): ReportedTest[] {
  return reports.flatMap((report) => report.tests.filter((test) => test.status === "failed"));
}

/** The files of a report in which something failed, each once. */
export function failedFiles(report: TestReport): string[] {
  return [...new Set([...report.brokenFiles, ...failedTests([report]).map((test) => test.file)])];
}

/** What holds after some files of a first run were run once more: those files are as the second run found them. */
export function afterSecondTry(first: TestReport, second: TestReport): TestReport {
  const again = new Set([...second.tests.map((test) => test.file), ...second.brokenFiles]);
  return {
    tests: [...first.tests.filter((test) => !again.has(test.file)), ...second.tests],
    brokenFiles: [...first.brokenFiles.filter((file) => !again.has(file)), ...second.brokenFiles],
  };
}
