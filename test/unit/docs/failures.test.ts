import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const page = readFileSync("docs/failures.md", "utf8");

/** Cells of the rows of all tables, without the header rows. */
const rows = page
  .split("\n")
  .filter((line) => /^\| (?!failure |---)/.test(line))
  .map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));

it("docs/failures.md fills every column, and each row names a test that exists", () => {
  expect(rows.length).toBeGreaterThan(25);
  expect(rows.filter((cells) => cells.length !== 6 || cells.some((cell) => cell.length < 4))).toEqual([]);
  const tests = rows.map((cells) => /^`(test\/\S+\.test\.ts)`$/.exec(cells.at(-1) ?? "")?.[1] ?? "");
  expect(tests.filter((path) => !existsSync(path))).toEqual([]);
});

it("docs/failures.md names only checks that uis doctor has", () => {
  const sources = ["machine", "settings", "running", "models", "engine", "upstreams", "check"]
    .map((name) => readFileSync(`src/app/doctor/${name}.ts`, "utf8"))
    .join("\n");
  const named = rows.flatMap((cells) => {
    const [, list = ""] = /`uis doctor`:((?: `\w+`,?)+)/.exec(cells[3] ?? "") ?? [];
    return [...list.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  });
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((name) => !sources.includes(`("${name}"`) && !sources.includes(`"${name}",`))).toEqual([]);
});
