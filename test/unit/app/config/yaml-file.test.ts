// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readYaml } from "../../../../src/app/config/yaml-file.js";

describe("references to variables", () => {
  it("expand in values, quoted or not, also in flow mappings", async () => {
    const text = "a: { key: ${KEY}, url: \"http://${HOST:-localhost}:1\", other: 'x${KEY}y' }\n";
    expect((await readYaml(text, { KEY: "k" })).data).toEqual({
      a: { key: "k", url: "http://localhost:1", other: "xky" },
    });
  });

  it("become numbers, booleans and null in unquoted values", async () => {
    const text = 'a: ${N}\nb: "${N}"\nc: ${T:-true}\nd: ${E:-}\ne: ${F:-1.5}\n';
    expect((await readYaml(text, { N: "8080" })).data).toEqual({ a: 8080, b: "8080", c: true, d: null, e: 1.5 });
  });

  it("use their default also if the variable is empty, as in a shell", async () => {
    const text = 'a: "${E:-x}"\nb: "${E}"\nc: "${E:-}"\n';
    expect((await readYaml(text, { E: "" })).data).toEqual({ a: "x", b: "", c: "" });
  });

  it("insert the variable as one scalar, whose content never changes the structure of the YAML", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), async (value) => {
        fc.pre(value !== "");
        expect((await readYaml('a: "${V}"\nb: 1\n', { V: value })).data).toEqual({ a: value, b: 1 });
      }),
    );
    expect((await readYaml("a: ${V}\n", { V: "{ b: 1 }" })).data).toEqual({ a: "{ b: 1 }" });
    expect((await readYaml("a: ${V}\n", { V: "&x [1]" })).data).toEqual({ a: "&x [1]" });
  });

  it("are not expanded after a second dollar sign, or in keys", async () => {
    expect((await readYaml('a: "$${HOME}"\n"${K}": 1\n', { HOME: "x", K: "y" })).data).toEqual({
      a: "${HOME}",
      "${K}": 1,
    });
  });

  it("are reported with their position if the variable is missing or the syntax is wrong", async () => {
    expect((await readYaml("a: 1\nb:\n  - c: x${GONE}\n", {})).problems).toEqual([
      {
        line: 3,
        column: 8,
        path: "b[0].c",
        message: "the variable GONE is not set",
        hint: "set it, or write ${GONE:-default}",
      },
    ]);
    expect((await readYaml('a: "${1x}"\n', {})).problems[0]?.message).toBe("${1x} is not a reference to a variable");
  });
});

describe("problems of the file", () => {
  it("are reported with line and column", async () => {
    const [problem] = (await readYaml("a: [1,\nb: 2\n", {})).problems;
    expect(problem).toMatchObject({ line: 2, path: "" });
  });

  it("include duplicate names and unknown aliases", async () => {
    expect((await readYaml("a: 1\na: 2\n", {})).problems).toHaveLength(1);
    expect((await readYaml("a: *b\n", {})).problems).toHaveLength(1);
  });

  it("include aliases that would expand to a huge document", async () => {
    const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(",")}]`);
    const { data, problems } = await readYaml(`l0: &l0 [x]\n${levels.join("\n")}\n`, {});
    expect(data).toEqual({});
    expect(problems[0]?.message).toMatch(/alias/i);
  });
});

it("a YAML file of hundreds of models is read in slices, between which other work runs (E-15)", async () => {
  const model = (i: number) => `  - id: model-${i}\n    engine: scripted\n    scripted: { text: hello, tokens: 4 }\n`;
  const text = `models:\n${Array.from({ length: 503 }, (_, i) => model(i)).join("")}`;
  let turns = 0;
  const counting = setInterval(() => {
    turns += 1;
  }, 0);
  const { data } = await readYaml(text, {});
  clearInterval(counting);
  expect((data as { models: object[] }).models[502]).toMatchObject({ id: "model-502", scripted: { tokens: 4 } });
  expect(turns).toBeGreaterThan(1);
});

it("a YAML file with a second document is rejected", async () => {
  expect((await readYaml("a: 1\n---\nb: 2\n", {})).problems).toHaveLength(1);
});

it("an empty YAML file is accepted and has no settings", async () => {
  expect(await readYaml("# nothing\n", {})).toMatchObject({ data: {}, problems: [] });
});
