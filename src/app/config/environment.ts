import { parse } from "yaml";
import type { Variables } from "./expand.js";
import { constantLimits } from "./limits-settings.js";
import { type ConfigProblem, nearestName, problemAt, type SettingPath } from "./problem.js";
import { readSecretText, secretFileName } from "./secrets.js";
import { listSettings, type Setting, type SettingSchema } from "./setting-list.js";
import { upstreamKeyVariable } from "./upstream-settings.js";

/** The environment of the process. The rest of the program receives it as a parameter. */
export function processEnvironment(): Variables {
  return { ...process.env };
}

/** Short names of settings. The long name of the same setting takes precedence. */
export const wellKnownNames: Readonly<Record<string, SettingPath>> = {
  PORT: ["server", "port"],
  HOST: ["server", "host"],
  UIS_GRPC_PORT: ["server", "grpc_port"],
  UIS_OPS_PORT: ["server", "ops_port"],
  UIS_OPS_HOST: ["server", "ops_host"],
  REDIS_URL: ["state", "redis_url"],
  LOG_LEVEL: ["log", "level"],
};

/** Variables that are read elsewhere: secrets, and those of commands that call a running service. */
const otherNames = [
  "UIS_CONFIG",
  "UIS_URL",
  "UIS_API_KEY",
  "UIS_ADMIN_TOKEN",
  "UIS_ADMIN_PASSWORD",
  "UIS_BOOTSTRAP_API_KEY",
  "UIS_MASTER_KEY",
];

/** Settings that may contain a password. They can also be read from files, as `<name>_FILE`. */
const secretSettings: ReadonlySet<string> = new Set(["REDIS_URL", "UIS_STATE_REDIS_URL", "UIS_CORE_TOKEN"]);

/** A setting from outside the file. */
export interface SettingValue {
  readonly path: SettingPath;
  readonly value: unknown;
  /** Name of the variable or option, such as `PORT` or `--port`. */
  readonly from: string;
}

/** Settings from environment variables, in the order of ascending precedence. */
export function settingsOfEnvironment(variables: Variables): {
  readonly values: readonly SettingValue[];
  readonly problems: readonly ConfigProblem[];
} {
  const values: SettingValue[] = [];
  const problems: ConfigProblem[] = [];
  const settings = listSettings();
  const take = (name: string, setting: Setting | undefined) => {
    const found = secretSettings.has(name) ? readSecretText(name, variables) : { text: variables[name], from: name };
    if ("problem" in found) problems.push(found.problem);
    if (setting === undefined || "problem" in found || !found.text) return;
    try {
      values.push({ path: setting.path, value: valueOfText(found.text, setting.schema), from: found.from });
    } catch {
      problems.push(problemAt(setting.path.join("."), `${name} is not YAML`));
    }
  };
  for (const [name, path] of Object.entries(wellKnownNames)) {
    const setting = settings.find((one) => one.path.join() === path.join());
    take(name, setting);
  }
  for (const setting of settings) take(setting.environmentName, setting);
  for (const [name, value] of constantLimits) {
    const variable = `UIS_LIMITS_${name.toUpperCase()}`;
    if (!variables[variable]) continue;
    const message = `${variable} is no longer a setting: limits.${name} is always ${value}`;
    problems.push(problemAt(`limits.${name}`, message, "remove it"));
  }
  return { values, problems };
}

/**
 * Unknown variables with the prefix `UIS_` whose name is similar to a known one. Others are ignored: container platforms
 * set names such as `UIS_SERVICE_HOST` by themselves. `upstreams`: names of the configuration, whose keys are known.
 */
export function misspeltNames(
  variables: Variables,
  upstreams: readonly string[] = [],
): readonly { readonly name: string; readonly meant: string }[] {
  const secrets = [...otherNames, ...secretSettings, ...upstreams.map(upstreamKeyVariable)];
  const known = new Set<string>([
    ...listSettings().map((setting) => setting.environmentName),
    ...Object.keys(wellKnownNames),
    ...secrets.flatMap((name) => [name, secretFileName(name)]),
  ]);
  return Object.keys(variables).flatMap((name) => {
    if (!name.startsWith("UIS_") || known.has(name)) return [];
    const meant = nearestName(name, [...known]);
    return meant === null ? [] : [{ name, meant }];
  });
}

function valueOfText(text: string, schema: SettingSchema): unknown {
  if (schema.enum !== undefined) return text.toLowerCase();
  if (isText(schema)) return text;
  if (schema.type === "boolean" && (text === "1" || text === "0")) return text === "1";
  if (schema.type === "array" && !text.trimStart().startsWith("[") && !text.includes("\n")) {
    return text.split(",").map((item) => item.trim());
  }
  return parse(text) as unknown;
}

function isText(schema: SettingSchema): boolean {
  if (schema.anyOf === undefined) return schema.type === "string";
  return schema.anyOf.every(({ type }) => type === "string" || type === "null");
}
