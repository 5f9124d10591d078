import * as z from "zod";
import { configSchema } from "./schema.js";

/** JSON Schema of one setting or group. */
export interface SettingSchema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly SettingSchema[];
  readonly properties?: Readonly<Record<string, SettingSchema>>;
  /** Schema of any other name; false: there is none. */
  readonly additionalProperties?: SettingSchema | false;
  readonly items?: SettingSchema;
}

/** One setting outside `models`. */
export interface Setting {
  readonly path: readonly string[];
  /** Name of its variable, such as `UIS_LIMITS_BODY_BYTES_MAX`. */
  readonly environmentName: string;
  readonly schema: SettingSchema;
}

/** The schema as a constant of the bundle; undefined elsewhere. Deriving it would take a tenth of the time of a start. */
declare const bundledConfigSchema: SettingSchema | undefined;

let schema: SettingSchema | null = null;
let settings: readonly Setting[] | null = null;

/** JSON Schema of the configuration file, for editors and `uis config schema`. */
export function configJsonSchema(): SettingSchema {
  if (typeof bundledConfigSchema !== "undefined") return bundledConfigSchema;
  schema ??= z.toJSONSchema(configSchema, { io: "input" }) as SettingSchema;
  return schema;
}

/** Every setting that has an environment name, in the order of the schema. */
export function listSettings(): readonly Setting[] {
  settings ??= leaves(configJsonSchema(), []);
  return settings;
}

function leaves(schema: SettingSchema, path: readonly string[]): readonly Setting[] {
  const { properties } = schema;
  if (properties === undefined) return [{ path, environmentName: `UIS_${path.join("_").toUpperCase()}`, schema }];
  return Object.entries(properties).flatMap(([name, inner]) => leaves(inner, [...path, name]));
}

/** Names of the settings in a group; empty if it accepts any name. */
export function knownNamesAt(path: readonly (string | number)[]): readonly string[] {
  let schema: SettingSchema | undefined = configJsonSchema();
  for (const part of path) {
    schema = typeof part === "number" ? listSchema(schema)?.items : schemaOfName(schema, part);
  }
  return Object.keys(groupSchema(schema)?.properties ?? {});
}

function schemaOfName(schema: SettingSchema | undefined, name: string): SettingSchema | undefined {
  const { properties, additionalProperties } = groupSchema(schema) ?? {};
  return properties?.[name] ?? (additionalProperties || undefined);
}

/** JSON Schema of an entry of `models`. */
export function modelJsonSchema(): SettingSchema {
  return listSchema(configJsonSchema().properties?.["models"])?.items ?? {};
}

/** JSON Schema of an entry of `upstreams`. */
export function upstreamJsonSchema(): SettingSchema {
  return configJsonSchema().properties?.["upstreams"]?.additionalProperties || {};
}

/** A group that may also be a list is one of several alternatives. */
function groupSchema(schema: SettingSchema | undefined): SettingSchema | undefined {
  return schema?.anyOf?.find((form) => form.type === "object") ?? schema;
}

/** A list that may also be null is one of several alternatives. */
function listSchema(schema: SettingSchema | undefined): SettingSchema | undefined {
  return schema?.anyOf?.find((form) => form.items !== undefined) ?? schema;
}

const secretNames: ReadonlySet<string> = new Set(["api_key", "key", "token", "secret", "password"]);
const hidden = "***";

/** Settings without passwords in addresses, keys, tokens and values of headers: those read `***`. */
export function redacted<T>(settings: T): T {
  return redactedValue("", settings) as T;
}

function redactedValue(name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => redactedValue(name, item));
  if (typeof value === "object" && value !== null) {
    const nameOf = (inner: string) => (name === "headers" ? "secret" : inner);
    return Object.fromEntries(
      Object.entries(value).map(([inner, held]) => [inner, redactedValue(nameOf(inner), held)]),
    );
  }
  if (typeof value !== "string" || value === "") return value;
  return secretNames.has(name) ? hidden : withoutLogin(name, value);
}

/** User and password are before the last @; only in the address of a store may a password contain a slash. */
function withoutLogin(name: string, text: string): string {
  const login = name === "redis_url" ? /^([a-z+]+:\/\/)?.*@/i : /^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i;
  return text.replace(login, (_, scheme: string | undefined) => `${scheme ?? ""}${hidden}@`);
}
