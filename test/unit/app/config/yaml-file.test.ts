// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readYaml } from "../../../../src/app/config/yaml-file.js";

describe("references to variables", () => {
  it("expand in values, quoted or not, also in flow mappings", () => {
    const text = "a: { key: ${KEY}, url: \"http://${HOST:-localhost}:1\", other: 'x${KEY}y' }\n";
    expect(readYaml(text, { KEY: "k" }).data).toEqual({ a: { key: "k", url: "http://localhost:1", other: "xky" } });
  });

  it("become numbers, booleans and null in unquoted values", () => {
    const text = 'a: ${N}\nb: "${N}"\nc: ${T:-true}\nd: ${E:-}\ne: ${F:-1.5}\n';
    expect(readYaml(text, { N: "8080" }).data).toEqual({ a: 8080, b: "8080", c: true, d: null, e: 1.5 });
  });

  it("use their default also for an empty variable, as in a shell", () => {
    const text = 'a: "${E:-x}"\nb: "${E}"\nc: "${E:-}"\n';
    expect(readYaml(text, { E: "" }).data).toEqual({ a: "x", b: "", c: "" });
  });

  it("are never parsed as YAML, whatever the variable contains", () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        fc.pre(value !== "");
        expect(readYaml('a: "${V}"\nb: 1\n', { V: value }).data).toEqual({ a: value, b: 1 });
      }),
    );
    expect(readYaml("a: ${V}\n", { V: "{ b: 1 }" }).data).toEqual({ a: "{ b: 1 }" });
    expect(readYaml("a: ${V}\n", { V: "&x [1]" }).data).toEqual({ a: "&x [1]" });
  });

  it("stay unchanged after a second dollar sign and in keys", () => {
    expect(readYaml('a: "$${HOME}"\n"${K}": 1\n', { HOME: "x", K: "y" }).data).toEqual({ a: "${HOME}", "${K}": 1 });
  });

  it("are reported with their position if the variable is missing or the syntax is wrong", () => {
    expect(readYaml("a: 1\nb:\n  - c: x${GONE}\n", {}).problems).toEqual([
      {
        line: 3,
        column: 8,
        path: "b[0].c",
        message: "the variable GONE is not set",
        hint: "set it, or write ${GONE:-default}",
      },
    ]);
    expect(readYaml('a: "${1x}"\n', {}).problems[0]?.message).toBe("${1x} is not a reference to a variable");
  });
});

describe("problems of the file", () => {
  it("have line and column", () => {
    const [problem] = readYaml("a: [1,\nb: 2\n", {}).problems;
    expect(problem).toMatchObject({ line: 2, path: "" });
  });

  it("include duplicate names and unknown aliases", () => {
    expect(readYaml("a: 1\na: 2\n", {}).problems).toHaveLength(1);
    expect(readYaml("a: *b\n", {}).problems).toHaveLength(1);
  });

  it("include aliases that would expand to a huge document", () => {
    const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(",")}]`);
    const { data, problems } = readYaml(`l0: &l0 [x]\n${levels.join("\n")}\n`, {});
    expect(data).toEqual({});
    expect(problems[0]?.message).toMatch(/alias/i);
  });
});

it("an empty file has no settings", () => {
  expect(readYaml("# nothing\n", {})).toMatchObject({ data: {}, problems: [] });
});
