import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { emptyNames, houseRules, linesMax, longFiles, uncounted, unexplainedSkips, violations } from "./house-rules.js";

/** Text files that are committed or untracked. */
function trackedFiles(): { path: string; text: string }[] {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" });
  return listed
    .split("\n")
    .filter((path) => path !== "" && existsSync(path))
    .map((path) => ({ path, text: readFileSync(path, "utf8") }))
    .filter(({ text }) => !text.includes("\0"));
}

const files = trackedFiles();

describe("house rules", () => {
  it.each(houseRules)("$name", (rule) => {
    expect(files.flatMap(({ path, text }) => violations(rule, path, text))).toEqual([]);
  });

  it.each(houseRules)("a violation is detected: $name", (rule) => {
    expect(violations(rule, rule.canary.path, `first line\n${rule.canary.text}\n`)).toEqual([
      expect.stringMatching(/:2: /),
    ]);
  });

  it("a rule about code ignores comments", () => {
    const clock = houseRules.filter((rule) => rule.name === "src/domain reads no clock");
    const text = "/** Never Date.now(). */\n// nor new Date()\nexport const address = 'http://x'; // Date.now\n";
    expect(clock.flatMap((rule) => violations(rule, "src/domain/x.ts", text))).toEqual([]);
    expect(clock).toHaveLength(1);
  });
});

describe("skipped tests", () => {
  it("have reasons", () => {
    const tests = files.filter(({ path }) => path.startsWith("test/") && path.endsWith(".ts"));
    const skips = tests.filter(({ path }) => !path.startsWith("test/unit/tidy/"));
    expect(skips.flatMap(({ path, text }) => unexplainedSkips(path, text))).toEqual([]);
  });

  it("are reported if they have no reason", () => {
    expect(unexplainedSkips("x.test.ts", `it.skip("works", run);`)).toHaveLength(1);
    expect(unexplainedSkips("x.test.ts", `it.skipIf(old)("works", run);`)).toHaveLength(1);
    expect(unexplainedSkips("x.test.ts", `// Node 20 has no node:sqlite.\nit.skipIf(old)("works", run);`)).toEqual([]);
    expect(unexplainedSkips("x.test.ts", "it.skip(`skipped: no vectors`, run);")).toEqual([]);
    expect(unexplainedSkips("x.test.ts", `if (old) ctx.skip("Node 20 has no node:sqlite");`)).toEqual([]);
  });
});

describe("files of the repository", () => {
  it(`have at most ${linesMax} lines, or a reason in longFiles`, () => {
    const long = files.filter(
      ({ path, text }) => !uncounted.test(path) && text.trimEnd().split("\n").length > linesMax,
    );
    expect(long.map(({ path }) => path).sort()).toEqual(Object.keys(longFiles).sort());
  });

  it("have names that describe their content, unlike utils or helpers", () => {
    expect(emptyNames(files.map(({ path }) => path))).toEqual([]);
    expect(emptyNames(["src/lib/utils.ts", "src/domain/key-manager.ts", "test/helpers/x.ts"])).toHaveLength(3);
  });
});
