import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type * as z from "zod";
import { type SettingValue, settingsOfEnvironment } from "./environment.js";
import type { Variables } from "./expand.js";
import { constantLimits } from "./limits-settings.js";
import { ConfigError, type ConfigProblem, formatPath, nearestName, type SettingPath } from "./problem.js";
import { type Config, configSchema } from "./schema.js";
import { knownNamesAt } from "./setting-list.js";
import { readHubToken } from "./well-known-variables.js";
import { readYaml, type YamlFile } from "./yaml-file.js";

/** Where a configuration comes from. Flags win over the environment, that wins over the file, that over defaults. */
export interface ConfigSources {
  readonly env: Variables;
  readonly cwd: string;
  /** Settings of the command line; `undefined` values are ignored. */
  readonly flags?: readonly SettingValue[];
  /** `--config` */
  readonly file?: string | undefined;
}

export interface LoadedConfig {
  readonly config: Config;
  /** Absolute path of the file that was read; null when there is none. */
  readonly file: string | null;
}

/** The file that is read when none is named. */
const defaultFile = "uis.yaml";

/** Reads and checks the whole configuration. Rejects with ConfigError, which names every fault at once. */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const { file, text } = await readConfigFile(sources);
  const yaml = readYaml(text, sources.env);
  const environment = settingsOfEnvironment(sources.env);
  const overrides = [...environment.values, ...(sources.flags ?? [])].filter(({ value }) => value !== undefined);
  const result = configSchema.safeParse(overlay(yaml.data, overrides));
  const hubToken = readHubToken(sources.env);
  const problems = [...yaml.problems, ...environment.problems, ...("problem" in hubToken ? [hubToken.problem] : [])];
  if (!result.success && yaml.problems.length === 0) {
    problems.push(...result.error.issues.flatMap((issue) => toProblems(issue, yaml, overrides)));
  }
  if (problems.length > 0 || !result.success) throw new ConfigError(problems, file);
  return { config: deepFreeze(result.data), file };
}

async function readConfigFile({ env, cwd, file: flag }: ConfigSources): Promise<{ file: string | null; text: string }> {
  const named = flag ?? (env["UIS_CONFIG"] || undefined);
  const file = resolve(cwd, named ?? defaultFile);
  try {
    return { file, text: await readFile(file, "utf8") };
  } catch (error) {
    if (named === undefined && isMissing(error)) return { file: null, text: "" };
    const reason = isMissing(error) ? "does not exist" : `cannot be read: ${messageOf(error)}`;
    throw new ConfigError(
      [{ line: null, column: null, path: "", message: `the configuration file ${file} ${reason}`, hint: null }],
      file,
    );
  }
}

/** The file's settings with those of the environment and the command line laid over them. */
function overlay(data: unknown, overrides: readonly SettingValue[]): unknown {
  if (!isGroup(data)) return data;
  const root: Group = { ...data };
  for (const { path, value } of overrides) {
    let group = root;
    for (const name of path.slice(0, -1)) {
      const inner = group[name] ?? {};
      // A value stands where a group belongs: the schema says so, there is nothing to lay over.
      if (!isGroup(inner)) break;
      const copy = { ...inner };
      group[name] = copy;
      group = copy;
    }
    const last = path.at(-1);
    if (last !== undefined) group[last] = value;
  }
  return root;
}

type Group = Record<string | number, unknown>;

function isGroup(value: unknown): value is Group {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function toProblems(issue: z.core.$ZodIssue, yaml: YamlFile, overrides: readonly SettingValue[]): ConfigProblem[] {
  const path = issue.path.map((part) => (typeof part === "number" ? part : String(part)));
  if (issue.code === "unrecognized_keys") return issue.keys.map((name) => unknownName(path, name, yaml));
  const source = overrides.findLast((override) => override.path.every((part, i) => part === path[i]));
  const place = source === undefined ? yaml.placeOf(path) : null;
  const message = issue.message.replace(/^Invalid input: /, "");
  return [
    {
      line: place?.line ?? null,
      column: place?.column ?? null,
      path: formatPath(path),
      message: source === undefined ? message : `${message} (set by ${source.from})`,
      hint: null,
    },
  ];
}

function unknownName(path: SettingPath, name: string, yaml: YamlFile): ConfigProblem {
  const place = yaml.placeOfKey(path, name);
  const at = { line: place?.line ?? null, column: place?.column ?? null, path: formatPath([...path, name]) };
  const constant = path.join() === "limits" ? constantLimits.get(name) : undefined;
  if (constant !== undefined) {
    return { ...at, message: `is no setting any more: it is always ${constant}`, hint: "remove it" };
  }
  const meant = nearestName(name, knownNamesAt(path));
  return {
    ...at,
    message: "unknown setting",
    hint: meant === null ? null : `did you mean "${meant}"?`,
  };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
