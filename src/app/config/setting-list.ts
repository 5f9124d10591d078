import * as z from "zod";
import { configSchema } from "./schema.js";

/** What JSON Schema says of one setting or group. */
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
  /** What stands under any other name; false: there is none. */
  readonly additionalProperties?: SettingSchema | false;
  readonly items?: SettingSchema;
}

/** One setting outside of `models`. */
export interface Setting {
  readonly path: readonly string[];
  /** `UIS_LIMITS_BODY_BYTES_MAX` */
  readonly environmentName: string;
  readonly schema: SettingSchema;
}

let cached: { readonly schema: SettingSchema; readonly settings: readonly Setting[] } | null = null;

/** JSON Schema of the configuration file, for editors and `uis config schema`. */
export function configJsonSchema(): SettingSchema {
  return schemaAndSettings().schema;
}

/** Every setting that has an environment name, in the order of the schema. */
export function listSettings(): readonly Setting[] {
  return schemaAndSettings().settings;
}

function schemaAndSettings() {
  if (cached === null) {
    const schema = z.toJSONSchema(configSchema, { io: "input" }) as SettingSchema;
    cached = { schema, settings: [...leaves(schema, [])] };
  }
  return cached;
}

function* leaves(schema: SettingSchema, path: readonly string[]): Iterable<Setting> {
  if (schema.properties === undefined) {
    yield { path, environmentName: `UIS_${path.join("_").toUpperCase()}`, schema };
    return;
  }
  for (const [name, inner] of Object.entries(schema.properties)) yield* leaves(inner, [...path, name]);
}

/** Names that the group at `path` knows; empty where any name goes. */
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

/** A group that may also be written as a list is one of several forms. */
function groupSchema(schema: SettingSchema | undefined): SettingSchema | undefined {
  return schema?.anyOf?.find((form) => form.type === "object") ?? schema;
}

/** A list that may also be null is one of several forms. */
function listSchema(schema: SettingSchema | undefined): SettingSchema | undefined {
  return schema?.anyOf?.find((form) => form.items !== undefined) ?? schema;
}

const secretNames: ReadonlySet<string> = new Set(["api_key", "token", "secret", "password"]);
const hidden = "***";

/** Settings as they may be shown: without passwords in addresses, keys and tokens. What is hidden reads `***`. */
export function redacted<T>(settings: T): T {
  return redactedValue("", settings) as T;
}

function redactedValue(name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => redactedValue(name, item));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([inner, held]) => [inner, redactedValue(inner, held)]));
  }
  if (typeof value !== "string" || value === "") return value;
  return secretNames.has(name) ? hidden : withoutLogin(name, value);
}

/** User and password stand before the last @; only in an address of a store may a password hold a slash. */
function withoutLogin(name: string, text: string): string {
  const login = name === "redis_url" ? /^([a-z+]+:\/\/)?.*@/i : /^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i;
  return text.replace(login, (_, scheme: string | undefined) => `${scheme ?? ""}${hidden}@`);
}
