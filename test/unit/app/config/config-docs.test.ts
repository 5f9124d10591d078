import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { renderConfigFiles } from "../../../../scripts/config-docs.js";
import { configSchema } from "../../../../src/app/config/schema.js";

it.each([...renderConfigFiles()])("%s matches the schema (run: npx tsx scripts/config-docs.ts)", (path, text) => {
  expect(readFileSync(path, "utf8")).toBe(text);
});

it("docs/uis.example.yaml is a valid configuration", () => {
  const example: unknown = parse(readFileSync("docs/uis.example.yaml", "utf8"));
  expect(configSchema.safeParse(example).error).toBeUndefined();
});
