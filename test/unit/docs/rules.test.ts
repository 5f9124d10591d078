import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { coverRules, isRequired } from "../../../scripts/rule-coverage.js";
import { citedIds, parseRules, readRules } from "../../../scripts/rules.js";
import { afterSecondTry, countTests, failedFiles, failedTests, parseReport } from "../../../scripts/test-report.js";

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

  it("has no row that its reader would pass over", () => {
    const rows = ["openai-wire", "grpc", "keys", "limits", "usage", "webhooks", "security", "reliability"].flatMap(
      (name) =>
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
  const [known] = parseRules("| SSE-1 | M | doors | A stream begins. |", "x.md");
  const report = (fullName: string, status: string) => ({ tests: [{ fullName, status }], brokenFiles: [] });

  it("reads ids from titles, with the subject where a family has two", () => {
    expect(citedIds("chat SSE-1 STRM-12: wire RL-3, state RL-6; SHA-256 and UTF-8 are no rules")).toEqual([
      "SSE-1",
      "STRM-12",
      "wire RL-3",
      "state RL-6",
    ]);
    expect(citedIds("RL-3 without its subject")).toEqual(["RL-3"]);
  });

  it("reads rules from tables and passes over other lines", () => {
    const text =
      "# Title\n| id | level | stage | rule |\n| --- | --- | --- | --- |\n| wire RL-1 | S | limits | Six headers. |\n";
    expect(parseRules(text, "x.md")).toEqual([
      { id: "wire RL-1", level: "S", stage: "limits", sentence: "Six headers.", file: "x.md" },
    ]);
  });

  it("counts a rule as proved by a test that passed, and by no other", () => {
    expect(known).toBeDefined();
    const required = known === undefined ? [] : [known];
    expect(coverRules(required, [report("begins (SSE-1)", "passed")]).unproved).toEqual([]);
    expect(coverRules(required, [report("begins (SSE-1)", "failed")]).unproved).toEqual(required);
    expect(coverRules(required, [report("begins (SSE-1)", "skipped")]).unproved).toEqual(required);
    expect(coverRules(required, []).unproved).toEqual(required);
  });

  it("names ids that no sentence explains, also in tests that did not pass", () => {
    expect(coverRules([], [report("flies (SSE-99)", "skipped")]).unknown).toEqual([
      { id: "SSE-99", title: "flies (SSE-99)" },
    ]);
  });

  it("requires levels M and S of this release only", () => {
    const of = (level: string, stage: string) => ({ id: "SSE-1", level, stage, sentence: "A.", file: "x.md" });
    expect(
      [
        of("M", "doors"),
        of("S", "doors"),
        of("D", "doors"),
        of("O", "doors"),
        of("M", "engine"),
        of("M", "dashboard"),
        of("M", "upstream"),
      ].map(isRequired),
    ).toEqual([true, true, false, false, true, true, false]);
  });
});

describe("test reports", () => {
  const file = (status: string, statuses: readonly string[]) => ({
    name: "x.test.ts",
    status,
    assertionResults: statuses.map((each) => ({ fullName: "works", status: each })),
  });

  it("count tests, and a file that could not be collected as one failure", () => {
    const report = parseReport(
      JSON.stringify({
        testResults: [file("failed", ["passed", "failed", "skipped"]), file("failed", []), file("passed", ["passed"])],
      }),
    );
    expect(countTests([report])).toEqual({ passed: 2, failed: 2, skipped: 1 });
  });

  it("of a second try stand for the files that were run again, and say what is still red and why", () => {
    const run = (files: Readonly<Record<string, readonly [title: string, status: string][]>>) =>
      parseReport(
        JSON.stringify({
          testResults: Object.entries(files).map(([name, tests]) => ({
            name,
            status: tests.some(([, status]) => status === "failed") || tests.length === 0 ? "failed" : "passed",
            assertionResults: tests.map(([fullName, status]) => ({
              fullName,
              status,
              failureMessages: status === "failed" ? [`${fullName} went wrong`] : [],
            })),
          })),
        }),
      );
    const first = run({
      "steady.test.ts": [["stays", "passed"]],
      "mended.test.ts": [
        ["stalls", "failed"],
        ["runs", "passed"],
      ],
      "worse.test.ts": [
        ["breaks", "failed"],
        ["held", "passed"],
      ],
      "unread.test.ts": [],
    });
    expect(failedFiles(first)).toEqual(["unread.test.ts", "mended.test.ts", "worse.test.ts"]);
    const last = afterSecondTry(
      first,
      run({
        "mended.test.ts": [
          ["stalls", "passed"],
          ["runs", "passed"],
        ],
        "worse.test.ts": [
          ["breaks", "passed"],
          ["held", "failed"],
        ],
        "unread.test.ts": [["reads", "passed"]],
      }),
    );
    expect(countTests([last])).toEqual({ passed: 5, failed: 1, skipped: 0 });
    expect(failedTests([last]).map(({ fullName, messages }) => [fullName, messages])).toEqual([
      ["held", ["held went wrong"]],
    ]);
  });
});
