/**
 * Compares the rules of `docs/rules` with the tests that ran, in both directions. Reads the reports that `npm test` and
 * `npm run check` write to `test-results/`. Exit code 1 if a cited rule does not exist or a required rule has no passing test.
 *
 *   npx tsx scripts/rule-coverage.ts [folder of reports]
 */
import { pathToFileURL } from "node:url";
import { citedIds, type Rule, readRules } from "./rules.js";
import { type ReportedTest, readReports } from "./test-report.js";

export interface Coverage {
  /** Ids that a test cites and no rule file contains, each with the title of one such test. */
  readonly unknown: readonly { readonly id: string; readonly title: string }[];
  /** Rules that this release must prove and no passing test cites. */
  readonly unproved: readonly Rule[];
  /** How many rules of any level and stage a passing test cites. */
  readonly proved: number;
  readonly required: number;
}

/** Stages that this release contains and therefore must prove. */
const provenStages: readonly string[] = ["transports", "engine", "limits", "state", "webhooks", "dashboard"];

/** Rules that this release must prove: those of level must and should in the stages that it contains. */
export function isRequired(rule: Rule): boolean {
  return (rule.level === "M" || rule.level === "S") && provenStages.includes(rule.stage);
}

/** The parts of a report that coverage needs. */
interface RanTests {
  readonly tests: readonly Pick<ReportedTest, "fullName" | "status">[];
}

export function coverRules(rules: readonly Rule[], reports: readonly RanTests[]): Coverage {
  const known = new Set(rules.map((rule) => rule.id));
  const unknown = new Map<string, string>();
  const proved = new Set<string>();
  for (const test of reports.flatMap((report) => report.tests)) {
    for (const id of citedIds(test.fullName)) {
      if (!known.has(id)) unknown.set(id, test.fullName);
      else if (test.status === "passed") proved.add(id);
    }
  }
  const required = rules.filter(isRequired);
  return {
    unknown: [...unknown].map(([id, title]) => ({ id, title })),
    unproved: required.filter((rule) => !proved.has(rule.id)),
    proved: proved.size,
    required: required.length,
  };
}

/** Prints cited rules that do not exist and required rules without a passing test; returns true if there are none. */
export function reportCoverage(reportsFolder: string): boolean {
  const coverage = coverRules(readRules("docs/rules"), readReports(reportsFolder));
  for (const { id, title } of coverage.unknown) {
    console.error(`no sentence in docs/rules for ${id}, cited by "${title}"`);
  }
  for (const rule of coverage.unproved) {
    console.error(`no passing test cites ${rule.id} (docs/rules/${rule.file}): ${rule.sentence}`);
  }
  const missing = coverage.unproved.length;
  console.log(
    `rules: ${coverage.required - missing} of ${coverage.required} required ones proved, ${coverage.proved} in all`,
  );
  return missing === 0 && coverage.unknown.length === 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = reportCoverage(process.argv[2] ?? "test-results") ? 0 : 1;
}
