import { modelIdForm, modelIdWords } from "../../contract/names.js";
import {
  checkCount,
  checkInteger,
  checkOneOf,
  checkPresent,
  quote,
  refuse,
  refuseValue,
} from "../call/service-error.js";
import {
  kindsWithNativeApis,
  type NativeApi,
  nativeApis,
  type UpstreamKind,
  upstreamKinds,
} from "../engine/upstream.js";
import {
  apiVersionForm,
  azurePathForm,
  credentialHeaders,
  deploymentBounds,
  embeddedName,
  headerNameForm,
  headerValueForm,
  headerValueWords,
  keyForm,
  keyWords,
  ownHeaderForm,
  upstreamDurations,
  upstreamNameForm,
  upstreamNameWords,
} from "../engine/upstream-forms.js";
import { checkUpstreamUrl, kindOfHost } from "../engine/upstream-url.js";
import type { StoredUpstream } from "./upstream-store.js";

/** Settings of an upstream that an administrator chooses, without its secrets. */
export type UpstreamChoices = Pick<
  StoredUpstream,
  "url" | "kind" | "apiVersion" | "models" | "discoverMs" | "native" | DurationField | DeploymentNumber
>;

type DurationField = "connectMs" | "firstByteMs" | "idleMs" | "totalMs";
type DeploymentNumber = "weight" | "priority" | "slots";

/** Input of an upstream. An absent field gets its default in a new upstream and stays unchanged in an existing one. */
export interface UpstreamInput {
  readonly url?: string | undefined;
  readonly kind?: string | undefined;
  /** Empty: none. */
  readonly apiVersion?: string | undefined;
  readonly models?: readonly string[] | undefined;
  readonly native?: readonly string[] | undefined;
  /** 0: its models are not listed. */
  readonly discoverMs?: number | undefined;
  readonly connectMs?: number | undefined;
  readonly firstByteMs?: number | undefined;
  readonly idleMs?: number | undefined;
  readonly totalMs?: number | undefined;
  readonly weight?: number | undefined;
  readonly priority?: number | undefined;
  readonly slots?: number | undefined;
}

/** Texts that are stored encrypted. Absent: unchanged. */
export interface UpstreamSecrets {
  /** Empty: none. */
  readonly key?: string | undefined;
  /** Values by name. They replace all stored headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const modelsMax = 1_000;
const headersMax = 32;

export function checkUpstreamName(name: string): void {
  checkPresent(name, "name");
  if (name === embeddedName) refuseValue("name", `'name' is reserved for deployments without an upstream.`);
  if (!upstreamNameForm.test(name)) {
    refuseValue("name", `'name' must be ${upstreamNameWords}, but is ${quote(name)}.`);
  }
}

/** Address and kind of a server that is only checked; an empty kind is the default. Throws ServiceError naming the field. */
export function checkServer(url: string, kind: string): Pick<UpstreamChoices, "url" | "kind"> {
  const checked = checkUrl(url);
  const server = { url: checked, kind: kind === "" ? (kindOfHost(checked) ?? "generic") : checkKind(kind) };
  checkAzureUrl(server);
  return server;
}

/** The choices of a new upstream. Throws ServiceError naming the field at fault. */
export function checkNewUpstream(input: UpstreamInput): UpstreamChoices {
  return checkChoices(
    {
      ...checkServer(input.url ?? "", input.kind ?? ""),
      apiVersion: null,
      models: [],
      discoverMs: upstreamDurations.discover.default,
      connectMs: upstreamDurations.connect.default,
      firstByteMs: upstreamDurations.firstByte.default,
      idleMs: upstreamDurations.idle.default,
      totalMs: upstreamDurations.total.default,
      weight: deploymentBounds.weight.default,
      priority: deploymentBounds.priority.default,
      slots: deploymentBounds.slots.default,
    },
    input,
  );
}

/** The choices after a change. Throws ServiceError naming the field at fault. */
export function checkChoices(before: UpstreamChoices, input: UpstreamInput): UpstreamChoices {
  const models = input.models === undefined ? before.models : checkModels(input.models);
  const after: UpstreamChoices = {
    url: input.url === undefined ? before.url : checkUrl(input.url),
    kind: input.kind === undefined ? before.kind : checkKind(input.kind),
    apiVersion: input.apiVersion === undefined ? before.apiVersion : checkApiVersion(input.apiVersion),
    models,
    native: input.native === undefined ? (before.native ?? []) : checkNative(input.native),
    discoverMs: discoverOf(before, input, models),
    connectMs: durationOf("connect", before.connectMs, input.connectMs),
    firstByteMs: durationOf("firstByte", before.firstByteMs, input.firstByteMs),
    idleMs: durationOf("idle", before.idleMs, input.idleMs),
    totalMs: durationOf("total", before.totalMs, input.totalMs),
    weight: numberOf("weight", before, input),
    priority: numberOf("priority", before, input),
    slots: numberOf("slots", before, input),
  };
  checkAzureUrl(after);
  checkApiOf(after);
  return after;
}

function checkUrl(text: string): string {
  checkPresent(text, "url");
  const checked = checkUpstreamUrl(text);
  return "url" in checked ? checked.url : refuseValue("url", `'url' ${checked.refusal}.`);
}

function checkKind(text: string): UpstreamKind {
  checkOneOf(text, "kind", upstreamKinds);
  return upstreamKinds.find((kind) => kind === text) ?? "generic";
}

function checkApiVersion(text: string): string | null {
  if (text === "") return null;
  if (apiVersionForm.test(text)) return text;
  return refuseValue("api_version", `'api_version' must be a version such as 2024-10-21, but is ${quote(text)}.`);
}

function checkModels(models: readonly string[]): readonly string[] {
  checkCount(models.length, "models", modelsMax);
  const wrong = models.find((model) => !modelIdForm.test(model));
  if (wrong !== undefined)
    refuseValue("models", `'models' must have names of ${modelIdWords}, but has ${quote(wrong)}.`);
  const twice = models.find((model, i) => models.indexOf(model) !== i);
  if (twice !== undefined) refuseValue("models", `'models' has ${quote(twice)} twice.`);
  return [...models];
}

/**
 * Returns the interval at which the models of the upstream are listed; null: they are not listed. If `models` names the
 * models to offer, they are not listed; if the names are removed, listing starts again.
 */
function discoverOf(before: UpstreamChoices, { discoverMs }: UpstreamInput, models: readonly string[]): number | null {
  const { min, max, default: byDefault } = upstreamDurations.discover;
  if (models.length > 0) {
    if (!discoverMs) return null;
    return refuseValue("discover", "'discover' must be 0s, because 'models' names the models to offer.");
  }
  if (discoverMs === undefined) return before.models.length > 0 ? byDefault : before.discoverMs;
  if (discoverMs === 0) return null;
  return checkMs("discover", discoverMs, min, max);
}

const fieldNames = { connect: "connect", firstByte: "first_byte", idle: "idle", total: "total" } as const;

function durationOf(name: keyof typeof fieldNames, before: number, input: number | undefined): number {
  const { min, max } = upstreamDurations[name];
  return input === undefined ? before : checkMs(fieldNames[name], input, min, max);
}

function checkMs(param: string, ms: number, min: number, max: number): number {
  if (ms >= min && ms <= max) return Math.round(ms);
  return refuseValue(param, `'${param}' must be ${min / 1_000}s to ${max / 1_000}s, but is ${ms / 1_000}s.`);
}

function numberOf(name: DeploymentNumber, before: UpstreamChoices, input: UpstreamInput): number {
  const { min, max } = deploymentBounds[name];
  const value = input[name] ?? before[name];
  checkInteger(value, name, min, max);
  return value;
}

function checkAzureUrl({ kind, url }: Pick<UpstreamChoices, "url" | "kind">): void {
  if (kind !== "azure" || !azurePathForm.test(new URL(url).pathname)) return;
  refuseValue("url", "'url' must be the resource for the kind azure, such as https://NAME.openai.azure.com.");
}

function checkNative(names: readonly string[]): readonly NativeApi[] {
  for (const name of names) checkOneOf(name, "native", nativeApis);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) refuseValue("native", `'native' has ${quote(twice)} twice.`);
  return nativeApis.filter((api) => names.includes(api));
}

function checkApiOf({ kind, apiVersion, models, native = [] }: UpstreamChoices): void {
  if (native.length > 0 && !kindsWithNativeApis.includes(kind)) {
    refuseValue("native", `'native' is for the kinds ${kindsWithNativeApis.join(", ")} alone.`);
  }
  if (kind !== "azure" && apiVersion !== null) {
    refuseValue("api_version", "'api_version' is only for the kind azure.");
  }
  if (kind !== "azure" || models.length > 0) return;
  const why = "the kind azure, which does not list its deployments: name those to offer";
  refuse("missing_required_parameter", "models", `'models' is required for ${why}.`);
}

/** Checks the key; empty: none. */
export function checkKey(key: string): string | null {
  if (key === "") return null;
  // The error message contains no part of the key.
  return keyForm.test(key) ? key : refuseValue("key", `'key' must be ${keyWords}.`);
}

/** The headers by lower-case name. `hasKey`: whether the upstream also has a key. */
export function checkHeaders(headers: Readonly<Record<string, string>>, hasKey: boolean): ReadonlyMap<string, string> {
  const entries = Object.entries(headers);
  checkCount(entries.length, "headers", headersMax);
  const checked = new Map<string, string>();
  for (const [given, value] of entries) {
    const name = given.toLowerCase();
    if (!headerNameForm.test(name)) refuseValue("headers", `'headers' has ${quote(given)}, which is no header name.`);
    if (ownHeaderForm.test(name)) refuseValue("headers", `'headers' has ${name}, which the service sets itself.`);
    if (checked.has(name)) refuseValue("headers", `'headers' has ${name} twice, in different spellings.`);
    if (!headerValueForm.test(value)) refuseValue("headers", `The value of ${name} must be ${headerValueWords}.`);
    checked.set(name, value);
  }
  const credential = [...checked.keys()].find((name) => credentialHeaders.includes(name));
  if (hasKey && credential !== undefined) {
    refuseValue("headers", `'headers' has ${credential}, but the upstream also has a key: remove one of them.`);
  }
  return checked;
}
