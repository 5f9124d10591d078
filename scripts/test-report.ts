import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

export interface ReportedTest {
  /** Path of its file, relative to this folder. */
  readonly file: string;
  readonly fullName: string;
  readonly status: string;
  /** Why it failed, one text for each assertion; empty for a test that did not fail. */
  readonly messages: readonly string[];
}

/** The parts of a report of vitest's `json` reporter that the scripts need. */
export interface TestReport {
  readonly tests: readonly ReportedTest[];
  /** Test files that could not even be collected. */
  readonly brokenFiles: readonly string[];
  /** Duration of the tests and hooks of each file. */
  readonly secondsByFile: ReadonlyMap<string, number>;
}

interface ReportFile {
  testResults: {
    name: string;
    status: string;
    startTime: number;
    endTime: number;
    assertionResults: { fullName: string; status: string; failureMessages?: string[] | null }[];
  }[];
}

export function parseReport(json: string): TestReport {
  const { testResults } = JSON.parse(json) as ReportFile;
  return {
    tests: testResults.flatMap((file) =>
      file.assertionResults.map(({ fullName, status, failureMessages }) => ({
        file: relative(".", file.name),
        fullName,
        status,
        messages: failureMessages ?? [],
      })),
    ),
    brokenFiles: testResults
      .filter((file) => file.status === "failed" && file.assertionResults.every((test) => test.status !== "failed"))
      .map((file) => relative(".", file.name)),
    secondsByFile: new Map(
      testResults.map(({ name, startTime, endTime }) => [relative(".", name), Math.max(0, endTime - startTime) / 1000]),
    ),
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

/** The tests of all reports, by result. */
export interface Outcome {
  readonly passed: readonly ReportedTest[];
  readonly failed: readonly ReportedTest[];
  readonly skipped: readonly ReportedTest[];
  readonly brokenFiles: readonly string[];
}

export function outcomeOf(reports: readonly TestReport[]): Outcome {
  const tests = reports.flatMap((report) => report.tests);
  return {
    passed: tests.filter(({ status }) => status === "passed"),
    failed: tests.filter(({ status }) => status === "failed"),
    skipped: tests.filter(({ status }) => status !== "passed" && status !== "failed"),
    brokenFiles: reports.flatMap((report) => report.brokenFiles),
  };
}

/** Something that fails a run, and lines that explain it. */
export interface Fault {
  readonly title: string;
  readonly lines: readonly string[];
}

/**
 * Failures of the run: each failed test, each file that could not be collected, each other failed step and, if `isCi`,
 * each skipped test. The last line of the output counts them.
 */
export function faultsOf(outcome: Outcome, failedSteps: readonly string[], isCi: boolean): Fault[] {
  return [
    ...outcome.failed.map((test) => ({ title: `failed: ${nameOf(test)}`, lines: test.messages })),
    ...outcome.brokenFiles.map((file) => ({ title: `test file could not be loaded: ${file}`, lines: [] })),
    ...failedSteps.map((name) => ({ title: `failed step: ${name}`, lines: [] })),
    ...(isCi ? outcome.skipped : []).map((test) => ({ title: `skipped with CI=true: ${nameOf(test)}`, lines: [] })),
  ];
}

export function nameOf({ file, fullName }: ReportedTest): string {
  return `${file} > ${fullName}`;
}

/** `N passed, N failed`, with `, N skipped` where tests were skipped. */
export function summaryLine({ passed, skipped }: Outcome, faults: readonly Fault[]): string {
  return `${passed.length} passed, ${faults.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`;
}
