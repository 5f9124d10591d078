import { describe, expect, it } from "vitest";
import { lintPlanted } from "../../support/planted-tree.js";

/** One violation of every rule that biome.json enables in addition to Biome's recommended ones. */
const canaries: readonly { path: string; rule: string; text: string }[] = [
  {
    path: "src/lib/float.ts",
    rule: "lint/nursery/noFloatingPromises",
    text: "async function work(): Promise<number> {\n  return 1;\n}\nexport function start(): void {\n  work();\n}\n",
  },
  {
    path: "src/lib/misuse.ts",
    rule: "lint/nursery/noMisusedPromises",
    text: "async function ready(): Promise<boolean> {\n  return true;\n}\nexport function ask(): number {\n  if (ready()) return 1;\n  return 2;\n}\n",
  },
  {
    path: "src/app/env.ts",
    rule: "lint/style/noProcessEnv",
    text: 'export const port = process.env["PORT"];\n',
  },
  { path: "src/lib/say.ts", rule: "lint/suspicious/noConsole", text: 'console.log("hello");\nexport {};\n' },
  { path: "test/unit/say.ts", rule: "lint/suspicious/noConsole", text: 'console.log("hello");\nexport {};\n' },
  {
    path: "src/lib/any.ts",
    rule: "lint/suspicious/noExplicitAny",
    text: "export function loose(value: any): string {\n  return String(value);\n}\n",
  },
  {
    path: "src/lib/bang.ts",
    rule: "lint/style/noNonNullAssertion",
    text: "export function sure(value: string | null): string {\n  return value!;\n}\n",
  },
  { path: "src/lib/enum.ts", rule: "lint/style/noEnum", text: "export enum Colour {\n  Red,\n}\n" },
  {
    path: "src/lib/parameter.ts",
    rule: "lint/style/noParameterProperties",
    text: "export class Held {\n  constructor(readonly value: string) {}\n}\n",
  },
  {
    path: "src/lib/type.ts",
    rule: "lint/style/useImportType",
    text: 'import { Held } from "./parameter.js";\nexport type Kept = Held;\n',
  },
  {
    path: "src/lib/unused.ts",
    rule: "lint/correctness/noUnusedImports",
    text: 'import { Colour } from "./enum.js";\nexport {};\n',
  },
  {
    path: "src/lib/idle.ts",
    rule: "lint/correctness/noUnusedVariables",
    text: "export function idle(): void {\n  const kept = 1;\n}\n",
  },
];

const besides = {
  "src/app/config/environment.ts": 'export const port = process.env["PORT"];\n',
  "scripts/say.ts": 'console.log(process.env["CI"]);\n',
};

describe("lint rules", () => {
  const planted = Object.fromEntries(canaries.map(({ path, text }) => [path, text]));
  const findings = lintPlanted({ ...planted, ...besides });

  it.each(canaries)("$rule catches $path", ({ path, rule }) => {
    const rules = findings.filter((finding) => finding.path === path).map((finding) => finding.rule);
    expect(rules).toContain(rule);
  });

  it("src/app/config and scripts may read the environment, and scripts may use the console", () => {
    const open = ["src/app/config/environment.ts", "scripts/say.ts"];
    expect(findings.filter((finding) => open.includes(finding.path))).toEqual([]);
  });
});
