import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { coverRules, isRequired } from "../../../scripts/rule-coverage.js";
import { citedIds, parseRules, readRules } from "../../../scripts/rules.js";
import { faultsOf, outcomeOf, parseReport, summaryLine } from "../../../scripts/test-report.js";

const rules = readRules("docs/rules");

/** The first cells of a table of docs/rules/README.md, by the heading above it. */
function namesUnder(heading: string): string[] {
  const [, section = ""] = readFileSync("docs/rules/README.md", "utf8").split(`## ${heading}\n`);
  const [table = ""] = section.split("\n## ");
  return [...table.matchAll(/^\| (\S+) \| /gm)]
    .map(([, name]) => String(name))
    .filter((name) => !/^(-+|level|stage)$/.test(name));
}

describe("docs/rules", () => {
  it("gives every id one sentence", () => {
    const ids = rules.map((rule) => rule.id);
    expect(ids).toEqual([...new Set(ids)]);
    expect(rules.filter((rule) => !/^[A-Z`].*\.$/.test(rule.sentence) || /\. [A-Z]/.test(rule.sentence))).toEqual([]);
  });

  it("uses the levels and stages that its README explains", () => {
    const levels = namesUnder("Levels");
    const stages = namesUnder("Stages");
    expect(levels).toEqual(["M", "S", "D", "O"]);
    expect(rules.filter((rule) => !levels.includes(rule.level) || !stages.includes(rule.stage))).toEqual([]);
  });

  it("has no row that the parser would skip", () => {
    const rows = [
      "openai-wire",
      "anthropic-wire",
      "grpc",
      "keys",
      "limits",
      "usage",
      "webhooks",
      "security",
      "reliability",
      "endurance",
    ].flatMap((name) =>
      readFileSync(`docs/rules/${name}.md`, "utf8")
        .split("\n")
        .filter((line) => /^\| .*\d+ /.test(line)),
    );
    expect(rules).toHaveLength(rows.length);
  });
});

describe("comments in src", () => {
  it("cite only rules that have a sentence", () => {
    const known = new Set(rules.map((rule) => rule.id));
    const files = readdirSync("src", { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const unknown = files.flatMap((entry) => {
      const path = join(entry.parentPath, entry.name);
      const ids = citedIds(readFileSync(path, "utf8"));
      return ids.filter((id) => !known.has(id)).map((id) => `${path}: ${id}`);
    });
    expect(unknown).toEqual([]);
  });
});

describe("rule coverage", () => {
  const [known] = parseRules("| SSE-1 | M | transports | A stream begins. |", "x.md");
  const report = (fullName: string, status: string) => ({ tests: [{ fullName, status }], brokenFiles: [] });

  it("reads ids from titles, with the prefix `wire` or `state` in families that exist twice", () => {
    expect(citedIds("chat SSE-1 STRM-12: wire RL-3, state RL-6; SHA-256 and UTF-8 are no rules")).toEqual([
      "SSE-1",
      "STRM-12",
      "wire RL-3",
      "state RL-6",
    ]);
    expect(citedIds("RL-3 without its subject")).toEqual(["RL-3"]);
  });

  it("reads rules from tables, and skips other lines", () => {
    const text =
      "# Title\n| id | level | stage | rule |\n| --- | --- | --- | --- |\n| wire RL-1 | S | limits | Six headers. |\n";
    expect(parseRules(text, "x.md")).toEqual([
      { id: "wire RL-1", level: "S", stage: "limits", sentence: "Six headers.", file: "x.md" },
    ]);
  });

  it("counts a rule as proved only if a test that cites it passed", () => {
    expect(known).toBeDefined();
    const required = known === undefined ? [] : [known];
    expect(coverRules(required, [report("begins (SSE-1)", "passed")]).unproved).toEqual([]);
    expect(coverRules(required, [report("begins (SSE-1)", "failed")]).unproved).toEqual(required);
    expect(coverRules(required, [report("begins (SSE-1)", "skipped")]).unproved).toEqual(required);
    expect(coverRules(required, []).unproved).toEqual(required);
  });

  it("reports cited ids without a sentence, also from tests that did not pass", () => {
    expect(coverRules([], [report("flies (SSE-99)", "skipped")]).unknown).toEqual([
      { id: "SSE-99", title: "flies (SSE-99)" },
    ]);
  });

  it("requires tests only for rules of levels M and S of this release", () => {
    const of = (level: string, stage: string) => ({ id: "SSE-1", level, stage, sentence: "A.", file: "x.md" });
    expect(
      [
        of("M", "transports"),
        of("S", "transports"),
        of("D", "transports"),
        of("O", "transports"),
        of("M", "engine"),
        of("M", "dashboard"),
        of("M", "upstream"),
      ].map(isRequired),
    ).toEqual([true, true, false, false, true, true, false]);
  });
});

describe("test reports", () => {
  const reportOf = (files: Readonly<Record<string, readonly string[]>>) =>
    parseReport(
      JSON.stringify({
        testResults: Object.entries(files).map(([name, statuses]) => ({
          name,
          status: statuses.length === 0 || statuses.includes("failed") ? "failed" : "passed",
          startTime: 1_000,
          endTime: 3_500,
          assertionResults: statuses.map((status) => ({ fullName: `is ${status}`, status, failureMessages: [status] })),
        })),
      }),
    );

  it("count tests, and count a file that could not be loaded as one failure", () => {
    const outcome = outcomeOf([
      reportOf({ "x.test.ts": ["passed", "failed", "skipped"], "broken.test.ts": [], "y.test.ts": ["passed"] }),
    ]);
    const faults = faultsOf(outcome, [], false);
    expect(faults.map(({ title }) => title)).toEqual([
      "failed: x.test.ts > is failed",
      "test file could not be loaded: broken.test.ts",
    ]);
    expect(faults[0]?.lines).toEqual(["failed"]);
    expect(summaryLine(outcome, faults)).toBe("2 passed, 2 failed, 1 skipped");
  });

  it("count a failed step other than a test, and in CI a skipped test, as a failure", () => {
    const outcome = outcomeOf([reportOf({ "x.test.ts": ["passed", "skipped"] })]);
    const faults = faultsOf(outcome, ["lint"], true);
    expect(faults.map(({ title }) => title)).toEqual([
      "failed step: lint",
      "skipped with CI=true: x.test.ts > is skipped",
    ]);
    expect(summaryLine(outcome, faults)).toBe("1 passed, 2 failed, 1 skipped");
    expect(faultsOf(outcome, [], false)).toEqual([]);
  });

  it("state that all tests passed if none failed and none was skipped", () => {
    const outcome = outcomeOf([reportOf({ "x.test.ts": ["passed"] })]);
    expect(summaryLine(outcome, faultsOf(outcome, [], true))).toBe("1 passed, 0 failed");
  });

  it("list the duration of each test file", () => {
    expect([...reportOf({ "x.test.ts": ["passed"] }).secondsByFile]).toEqual([["x.test.ts", 2.5]]);
  });
});
