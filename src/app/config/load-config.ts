import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import type * as z from "zod";
import { Turns } from "../../lib/clock.js";
import { errorText } from "../../lib/display-text.js";
import { isObject } from "../../lib/json-string.js";
import { type SettingValue, settingsOfEnvironment } from "./environment.js";
import type { Variables } from "./expand.js";
import { constantLimits } from "./limits-settings.js";
import { type ModelSettings, modelSettings } from "./model-settings.js";
import {
  ConfigError,
  type ConfigProblem,
  formatPath,
  nearestName,
  problemAt,
  type SettingPath,
  type SourcePosition,
} from "./problem.js";
import { type Config, checkTogether, settingsSchema } from "./schema.js";
import { knownNamesAt } from "./setting-list.js";
import { hubTokenProblems } from "./well-known-variables.js";
import { readYaml, type YamlFile } from "./yaml-file.js";

/** Sources of a configuration. Precedence: flags, environment, file, defaults. */
export interface ConfigSources {
  readonly env: Variables;
  readonly cwd: string;
  /** Settings of the command line; `undefined` values are ignored. */
  readonly flags?: readonly SettingValue[];
  /** Value of `--config`. */
  readonly file?: string | undefined;
  /** A file that was read before, instead of reading it again. */
  readonly read?: ConfigFile | undefined;
}

/** A configuration file as it was read. */
export interface ConfigFile {
  /** Absolute path; null if there is none. */
  readonly file: string | null;
  readonly text: string;
}

export interface LoadedConfig {
  readonly config: Config;
  /** Absolute path of the file that was read; null if there is none. */
  readonly file: string | null;
  /** Text of the file; empty if there is none. */
  readonly text: string;
  /** Position of a setting in the file; null if the setting does not come from the file. */
  readonly positionOf: (path: SettingPath) => SourcePosition | null;
}

/** The file that is read if none is named. */
const defaultFile = "uis.yaml";

/** Reads and validates the configuration. Rejects with a ConfigError that has all problems. */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const { file, text } = sources.read ?? (await readConfigFile(sources));
  const yaml = await readYaml(text, sources.env);
  // Other work runs between the two longest steps.
  await setImmediate();
  const environment = settingsOfEnvironment(sources.env);
  const overrides = [...environment.values, ...(sources.flags ?? [])].filter(({ value }) => value !== undefined);
  const { config, issues } = await validate(overlay(yaml.data, overrides));
  const problems = [...yaml.problems, ...environment.problems, ...hubTokenProblems(sources.env)];
  if (yaml.problems.length === 0) problems.push(...issues.flatMap((issue) => toProblems(issue, yaml, overrides)));
  if (problems.length > 0 || config === null) throw new ConfigError(problems, file);
  const positionOf = (path: SettingPath) => (overrideOf(path, overrides) === undefined ? yaml.positionOf(path) : null);
  return { config: deepFreeze(config), file, text, positionOf };
}

interface Validated {
  /** Null if there are issues. */
  readonly config: Config | null;
  readonly issues: readonly z.core.$ZodIssue[];
}

/** Does the same as `configSchema`, but lets other work run between models: a reload of hundreds must not stop requests. */
async function validate(data: unknown): Promise<Validated> {
  const listed: unknown = isObject(data) ? data["models"] : undefined;
  const list = Array.isArray(listed) ? listed : [];
  const others = settingsSchema.safeParse(list.length > 0 ? { ...Object(data), models: [] } : data);
  const issues = [...(others.error?.issues ?? [])];
  const models: ModelSettings[] = [];
  const turns = new Turns();
  for (const [i, each] of list.entries()) {
    const { data: model, error } = modelSettings.safeParse(each);
    if (model !== undefined) models.push(model);
    for (const issue of error?.issues ?? []) issues.push({ ...issue, path: ["models", i, ...issue.path] });
    await turns.next();
  }
  if (issues.length > 0 || !others.success) return { config: null, issues };
  const config = list.length > 0 ? { ...others.data, models } : others.data;
  checkTogether(config, (path, message) => issues.push({ code: "custom", path, message }));
  return { config: issues.length > 0 ? null : config, issues };
}

/** The environment's or command line's value of a setting or of a group that contains it. */
function overrideOf(path: SettingPath, overrides: readonly SettingValue[]): SettingValue | undefined {
  return overrides.findLast((one) => one.path.every((part, i) => part === path[i]));
}

async function readConfigFile({ env, cwd, file: flag }: ConfigSources): Promise<ConfigFile> {
  const named = flag ?? (env["UIS_CONFIG"] || undefined);
  const file = resolve(cwd, named ?? defaultFile);
  try {
    return { file, text: await readFile(file, "utf8") };
  } catch (error) {
    if (named === undefined && isMissing(error)) return { file: null, text: "" };
    const reason = isMissing(error) ? "does not exist" : `cannot be read: ${errorText(error)}`;
    const remedy = isMissing(error) ? "create it with uis config init" : "make it readable for this user";
    const fix = `${remedy}, or name another file with --config or UIS_CONFIG`;
    throw new ConfigError([problemAt("", `the configuration file ${file} ${reason}`, fix)], file);
  }
}

/** The settings of the file, overridden by those of the environment and the command line. */
function overlay(data: unknown, overrides: readonly SettingValue[]): unknown {
  if (!isObject(data)) return data;
  const root: Group = { ...data };
  for (const { path, value } of overrides) {
    let group = root;
    for (const name of path.slice(0, -1)) {
      const inner = group[name] ?? {};
      // The value in the file is not a group. The validation reports this.
      if (!isObject(inner)) break;
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

function toProblems(issue: z.core.$ZodIssue, yaml: YamlFile, overrides: readonly SettingValue[]): ConfigProblem[] {
  const path = issue.path.map((part) => (typeof part === "number" ? part : String(part)));
  const positionOf = (at: SettingPath) => (overrideOf(at, overrides) === undefined ? yaml.positionOf(at) : null);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((name) => unknownName(path, name, positionOf([...path, name])));
  }
  const source = overrideOf(path, overrides);
  const message = issue.message.replace(/^Invalid input: /, "");
  const text = source === undefined ? message : `${message} (set by ${source.from})`;
  return [problemAt(formatPath(path), text, null, positionOf(path))];
}

function unknownName(group: SettingPath, name: string, position: SourcePosition | null): ConfigProblem {
  const path = formatPath([...group, name]);
  const constant = group.join() === "limits" ? constantLimits.get(name) : undefined;
  if (constant !== undefined) {
    return problemAt(path, `is no longer a setting: it is always ${constant}`, "remove it", position);
  }
  const nearest = nearestName(name, knownNamesAt(group));
  return problemAt(path, "unknown setting", nearest === null ? null : `did you mean "${nearest}"?`, position);
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
