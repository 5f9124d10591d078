import { readdirSync, readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { parse, parseDocument } from "yaml";
import { readChartValues, renderChartReadme } from "../../../scripts/helm-docs.js";
import { configSchema } from "../../../src/app/config/schema.js";
import { configJsonSchema, listSettings, type SettingSchema } from "../../../src/app/config/setting-list.js";
import { defaultLimits } from "../../../src/contract/limits.js";
import { version } from "../../../src/contract/version.js";
import { metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { isGoodLink, ownLinks } from "../docs/links.js";

const chart = "deploy/helm/unified-inference";
const read = (file: string) => readFileSync(`${chart}/${file}`, "utf8");

function readYaml<T>(file: string): T {
  const document = parseDocument(read(file));
  expect(document.errors).toEqual([]);
  return document.toJS() as T;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly definitions?: Readonly<Record<string, Schema>>;
}

const schema = JSON.parse(read("values.schema.json")) as Schema;
const values = readChartValues();
const templates = readdirSync(`${chart}/templates`).map((file) => read(`templates/${file}`));
const template = templates.join("\n");
const forms = ["all-in-one", "gateway-core"] as const;

/** Paths of all values in the schema. A map without fixed names counts as one value. */
function schemaPaths({ $ref, ...own }: Schema, path: string): readonly string[] {
  const { properties } = $ref === undefined ? own : (schema.definitions?.[$ref.split("/").at(-1) ?? ""] ?? {});
  if (properties === undefined) return [path];
  return Object.entries(properties).flatMap(([name, inner]) =>
    schemaPaths(inner, path === "" ? name : `${path}.${name}`),
  );
}

/** Whether the values of a file, laid over the defaults as Helm does, fit the schema. */
function isValid(file: string, change: object = {}): boolean {
  const given = { ...readYaml<object>(file), ...change };
  return new Ajv({ allowUnionTypes: true }).validate(schema, given);
}

describe("the values of the Helm chart", () => {
  it("are all in the schema and in the table of the README (run: npx tsx scripts/helm-docs.ts)", () => {
    expect(schemaPaths(schema, "").toSorted()).toEqual(values.map(({ path }) => path).toSorted());
    expect(read("README.md")).toBe(renderChartReadme());
    for (const { path } of values) expect(read("README.md")).toContain(`| \`${path}\` |`);
  });

  it("each have a comment", () => {
    expect(values.filter(({ meaning }) => meaning.length < 5)).toEqual([]);
  });

  it("are all used by the templates, which use no other values", () => {
    const components = ["allInOne", "gateway", "core"];
    const roots = new Set([...template.matchAll(/(?:\.Values|\$values)\.([a-zA-Z]+)/g)].map(([, name]) => name));
    expect([...roots, ...components].filter((name) => !values.some(({ path }) => path.split(".")[0] === name))).toEqual(
      [],
    );
    // Templates read some values, such as those of components and secrets, as fields of a variable.
    const unused = values.filter(({ path }) => {
      const parts = path.split(".");
      const field = parts.at(-1) ?? "";
      return !new RegExp(`\\.${field}\\b|"${field}"`).test(template);
    });
    expect(unused).toEqual([]);
  });

  it("fit the schema by default and in each file of ci, and the schema rejects other names and forms", () => {
    expect(isValid("values.yaml")).toBe(true);
    for (const form of forms) expect(isValid(`ci/${form}-values.yaml`)).toBe(true);
    expect(isValid("values.yaml", { form: "cluster" })).toBe(false);
    expect(isValid("values.yaml", { replicas: 3 })).toBe(false);
    expect(isValid("values.yaml", { drain: { delaySeconds: "5s" } })).toBe(false);
  });

  it("have one file in ci for each form, with settings of uis.yaml that the service accepts", () => {
    expect(readdirSync(`${chart}/ci`).toSorted()).toEqual(forms.map((form) => `${form}-values.yaml`));
    for (const form of forms) {
      const given = readYaml<{ form: string; config: object; gatewayConfig?: object }>(`ci/${form}-values.yaml`);
      expect(given.form).toBe(form);
      for (const config of [given.config, given.gatewayConfig ?? {}]) {
        expect(configSchema.safeParse(config).error?.issues).toBeUndefined();
      }
    }
  });

  it("contain no secret, only names and keys of Secrets", () => {
    const secrets = values.filter(({ path }) => /^secrets\.\w+\.name$/.test(path));
    expect(secrets.length).toBeGreaterThan(5);
    expect(secrets.filter((secret) => secret.default !== "")).toEqual([]);
    expect(template).not.toMatch(/^kind: Secret$|randAlpha|genCA|derivePassword/m);
  });

  it("stop a pod no earlier than the service's default times allow", () => {
    const { drain } = readYaml<{ drain: Record<string, number> }>("values.yaml");
    expect(drain["maxSeconds"]).toBe(defaultLimits.drainMs / 1_000);
    expect(template).toMatch(
      /terminationGracePeriodSeconds: \{\{ add \S+preStopSeconds \S+delaySeconds \S+maxSeconds 20 \}\}/,
    );
  });
});

/** Settings in a template of uis.yaml, as paths: actions on separate lines are removed, others replaced by a word. */
function settingsIn(text: string): readonly string[] {
  const plain = text.replaceAll(/^\s*\{\{.*\}\}\n/gm, "").replaceAll(/\{\{[^}]*\}\}/g, "x");
  const pathsIn = (value: unknown, path: string): readonly string[] =>
    typeof value !== "object" || value === null || Array.isArray(value)
      ? [path]
      : Object.entries(value).flatMap(([name, inner]) => pathsIn(inner, path === "" ? name : `${path}.${name}`));
  return pathsIn(parse(plain), "");
}

const known = new Set(listSettings().map(({ path }) => path.join(".")));
const unknownIn = (text: string) => settingsIn(text).filter((path) => !known.has(path));
const environmentNames = new Set([...listSettings().map(({ environmentName }) => environmentName), "REDIS_URL"]);
const configPage = readFileSync("docs/config.md", "utf8");

/** Text of the template that is defined under this name. */
function definition(name: string): string {
  const [, text = ""] = template.split(`{{- define "${name}" -}}\n`);
  return text.split(/^\{\{- (?:\/\*|define)/m)[0]?.replace(/\{\{- end -\}\}\s*$/, "") ?? "";
}

describe("the templates of the Helm chart", () => {
  it("set only settings that exist", () => {
    const text = definition("uis.ownConfig");
    expect(settingsIn(text)).toEqual(expect.arrayContaining(["server.role", "server.drain_delay", "limits.drain"]));
    expect(unknownIn(text)).toEqual([]);
    expect(unknownIn("server:\n  role: x\n  {{- if .x }}\n  prot: {{ .x }}\n  {{- end }}\n")).toEqual(["server.prot"]);
  });

  it("reject settings in `config` that the templates set", () => {
    const refused = [...definition("uis.checkValues").matchAll(/"([a-z]+\.[a-z_]+)" "/g)].map(([, path]) => path);
    const set = settingsIn(definition("uis.ownConfig")).map((path) => path.split(".").slice(0, 2).join("."));
    expect([...new Set(set)].filter((path) => !refused.includes(path))).toEqual([]);
    const groups = (path: string) => {
      const [group = "", name = ""] = path.split(".");
      return (configJsonSchema().properties?.[group] as SettingSchema | undefined)?.properties?.[name];
    };
    expect(refused.filter((path) => groups(path ?? "") === undefined)).toEqual([]);
  });

  it("use the service's ports, variables, metrics and probes", () => {
    const { server } = configSchema.parse({});
    const ports = [...template.matchAll(/containerPort: (\d+)/g)].map(([, port]) => Number(port));
    expect(ports).toEqual([server.port, server.grpc_port, server.ops_port]);
    const variables = [...template.matchAll(/"?\b((?:UIS|REDIS)_[A-Z_]+)_FILE\b/g)].map(([, name]) => String(name));
    expect(variables.length).toBeGreaterThan(4);
    const isKnown = (name: string) => environmentNames.has(name) || configPage.includes(`\`${name}\``);
    expect(variables.filter((name) => name !== "UIS_UPSTREAM_" && !isKnown(name))).toEqual([]);
    const metrics = [...`${template}${read("README.md")}`.matchAll(/\buis_[a-z_]+/g)].map(([name]) => name);
    expect(new Set(metrics).size).toBe(3);
    expect(metrics.filter((name) => !Object.hasOwn(metricTable, name))).toEqual([]);
    const paths = new Set([...template.matchAll(/path: (\/[a-z]+), port/g)].map(([, path]) => path));
    expect([...paths].toSorted()).toEqual(["/livez", "/ready"]);
  });
});

describe("deploy/helm/unified-inference", () => {
  it("has the version of the package", () => {
    expect(readYaml("Chart.yaml")).toMatchObject({ version, appVersion: version, apiVersion: "v2" });
  });

  it("links to files that exist", () => {
    const page = `${chart}/README.md`;
    expect(ownLinks(read("README.md")).filter((link) => !isGoodLink(page, link))).toEqual([]);
  });
});
