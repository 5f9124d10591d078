import { isIP } from "node:net";
import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { credentialHeaders, embeddedName } from "../../domain/engine/upstream-forms.js";
import { checkUpstreamUrl } from "../../domain/engine/upstream-url.js";
import { formatDuration } from "../config/setting-types.js";
import { apiVersion, headerName, headerValue, upstreamKeyVariable } from "../config/upstream-settings.js";
import type { Note } from "./notes.js";
import type { Provider } from "./providers.js";
import { type Group, groupOf, numberOf, textOf, toSettingText, variableOf } from "./values.js";

/** An entry of `upstreams:` as it is printed. */
export interface UpstreamEntry {
  url: string;
  kind: UpstreamKind;
  api_version?: string;
  key?: string;
  headers?: Record<string, string>;
  discover?: string;
  first_byte?: string;
  total?: string;
}

interface Imported {
  readonly name: string;
  readonly entry: UpstreamEntry;
  /** Longest time among the entries that use the upstream; null: none sets one. */
  firstByteMs: number | null;
  totalMs: number | null;
}

/** Settings of an entry that describe its upstream. */
export const upstreamParams: readonly string[] = [
  "api_base",
  "base_url",
  "api_key",
  "api_version",
  "organization",
  "extra_headers",
  "headers",
  "timeout",
  "request_timeout",
  "stream_timeout",
];

const dayMs = 86_400_000;

/** The upstreams of an import: entries with the same server, key and headers share one. */
export class ImportedUpstreams {
  readonly #byIdentity = new Map<string, Imported>();
  readonly #variables = new Set<string>();
  readonly #note: (note: Note) => void;
  /** Times for entries without one of their own. */
  readonly #defaults: { readonly totalMs: number | null; readonly firstByteMs: number | null };

  constructor(note: (note: Note) => void, defaults: { totalMs: number | null; firstByteMs: number | null }) {
    this.#note = note;
    this.#defaults = defaults;
  }

  /** The name of the entry's upstream; `reason`: why there is none. */
  add(
    providerName: string,
    provider: Provider,
    params: Group,
  ): { readonly name: string } | { readonly reason: string } {
    const url = baseUrlOf(provider, params);
    if ("reason" in url) return url;
    const kind = provider.kind === "openai" && url.text !== provider.url ? "generic" : provider.kind;
    const headers = headersOf(params);
    const key = keyOf(provider, params, headers.set);
    const version = kind === "azure" ? versionOf(params["api_version"]) : null;
    const identity = JSON.stringify([kind, url.text, key, version, headers.set]);
    const known = this.#byIdentity.get(identity);
    if (known !== undefined) {
      this.#takeTimes(known, params);
      return { name: known.name };
    }
    const name = this.#nameFor(providerName, provider, url.text);
    const entry: UpstreamEntry = {
      url: url.text,
      kind,
      ...(version === null ? {} : { api_version: version }),
      ...("setting" in key ? { key: key.setting } : {}),
      ...(Object.keys(headers.set).length === 0 ? {} : { headers: headers.set }),
    };
    const imported = { name, entry, firstByteMs: null, totalMs: null };
    this.#byIdentity.set(identity, imported);
    this.#takeTimes(imported, params);
    const note = (sort: Note["sort"], what: string, why: string) =>
      this.#note({ sort, what, why, of: { list: "upstreams", name } });
    if ("literal" in key) {
      const ways = `write it into a file and set key_file, or set ${upstreamKeyVariable(name)}`;
      note("to do", "api_key", `the key in the LiteLLM file is not repeated here; if the server checks it, ${ways}`);
    }
    for (const header of headers.secret) {
      note("to do", `header ${header}`, "is a secret and not repeated here: set it to a reference to a variable");
    }
    for (const header of headers.invalid) note("left out", `header ${header}`, "cannot be set, or has no valid value");
    if (kind === "azure" && version === null) {
      note("changed", "api_version", "is not set to a version, so the paths below /openai/v1 are used");
    }
    if (Array.isArray(params["organization"])) note("left out", "organization", "only the first of the list is used");
    return { name };
  }

  /** Offers all models of the upstream. */
  discover(name: string): void {
    for (const one of this.#byIdentity.values()) if (one.name === name) one.entry.discover = "30s";
  }

  /** The entries of `upstreams:` by name, and the longest time that a call to one of them may take. */
  finish(): { readonly entries: Readonly<Record<string, UpstreamEntry>>; readonly longestMs: number } {
    const all = [...this.#byIdentity.values()];
    const entries = all.map(({ name, entry, ...times }) => {
      const firstByteMs = times.firstByteMs ?? this.#defaults.firstByteMs;
      const totalMs = times.totalMs ?? this.#defaults.totalMs;
      return [
        name,
        {
          ...entry,
          ...(firstByteMs === null ? {} : { first_byte: formatDuration(firstByteMs) }),
          ...(totalMs === null ? {} : { total: formatDuration(totalMs) }),
        },
      ] as const;
    });
    const totals = all.map(({ totalMs }) => totalMs ?? this.#defaults.totalMs ?? 0);
    return { entries: Object.fromEntries(entries), longestMs: Math.max(0, ...totals) };
  }

  #takeTimes(imported: Imported, params: Group): void {
    const of = { list: "upstreams", name: imported.name } as const;
    const longest = (setting: "firstByteMs" | "totalMs", what: string, value: unknown): void => {
      if (value === undefined || value === null) return;
      const ms = toMs(value);
      if (ms === null) {
        this.#note({ sort: "left out", what, why: "must be 0.01 to 86400 seconds as a number", of });
        return;
      }
      const before = imported[setting];
      if (before !== null && before !== ms) {
        this.#note({
          sort: "changed",
          what,
          why: "differs between the models of this upstream; the longest is used",
          of,
        });
      }
      imported[setting] = Math.max(before ?? 0, ms);
    };
    longest("totalMs", "timeout", params["timeout"] ?? params["request_timeout"]);
    longest("firstByteMs", "stream_timeout", params["stream_timeout"]);
  }

  /** A name whose variable for the key no other upstream has. */
  #nameFor(providerName: string, provider: Provider, url: string): string {
    // A server on this machine is not OpenAI.
    const ofServer = provider.kind === "openai" ? "openai-compatible" : providerName;
    const base = nameOf(url === provider.url ? providerName : (hostNameOf(url) ?? ofServer));
    let name = base;
    for (let number = 2; this.#variables.has(upstreamKeyVariable(name)); number += 1) name = `${base}-${number}`;
    this.#variables.add(upstreamKeyVariable(name));
    return name;
  }
}

/** Converts seconds to milliseconds; null if they are not a usable time. */
export function toMs(seconds: unknown): number | null {
  const number = numberOf(seconds);
  const ms = Math.round((number ?? 0) * 1000);
  return ms >= 10 && ms <= dayMs ? ms : null;
}

function baseUrlOf(provider: Provider, params: Group): { readonly text: string } | { readonly reason: string } {
  const base = textOf(params["api_base"] ?? params["base_url"]);
  if (base === null) {
    if (provider.url !== null) return { text: provider.url };
    if (provider.urlVariable !== undefined) return { text: `\${${provider.urlVariable}}` };
    return { reason: "api_base is missing: nothing says where its server is" };
  }
  const variable = variableOf(base);
  // The variable for Ollama contains no path, because Ollama's own programs use it too.
  if (variable !== null) return { text: `\${${variable}}${provider.kind === "ollama" ? "/v1" : ""}` };
  const checked = checkUpstreamUrl(provider.kind === "azure" ? base.replace(/\/openai(\/.*)?$/, "") : base);
  if ("refusal" in checked) return { reason: `api_base ${checked.refusal}` };
  const hasPath = new URL(checked.url).pathname !== "/";
  return { text: toSettingText(hasPath ? checked.url : `${checked.url}${provider.path ?? ""}`) };
}

/** The version of Azure's API; null if there is none, or it cannot be one. */
function versionOf(value: unknown): string | null {
  const text = String(value ?? "").trim();
  return variableOf(text) !== null || apiVersion.safeParse(text).success ? toSettingText(text) : null;
}

/** The reference to the key of an entry, or its text, which is only compared and never printed. */
function keyOf(
  { keyVariable }: Provider,
  params: Group,
  headers: Readonly<Record<string, string>>,
): { readonly setting: string } | { readonly literal: string } | Readonly<Record<never, never>> {
  if (Object.keys(headers).some((name) => credentialHeaders.includes(name))) return {};
  const key = textOf(params["api_key"]);
  if (key !== null) return variableOf(key) === null ? { literal: key } : { setting: toSettingText(key) };
  return keyVariable === null ? {} : { setting: `\${${keyVariable}}` };
}

interface Headers {
  readonly set: Readonly<Record<string, string>>;
  /** Names of literal values that look like secrets. */
  readonly secret: readonly string[];
  readonly invalid: readonly string[];
}

const secretName = /key|token|secret|password|auth|cookie/;

function headersOf(params: Group): Headers {
  const [organization]: unknown[] = [params["organization"]].flat();
  const listed = Object.entries({ ...groupOf(params["headers"]), ...groupOf(params["extra_headers"]) });
  if (textOf(organization) !== null) listed.push(["openai-organization", organization]);
  const set: Record<string, string> = {};
  const secret: string[] = [];
  const invalid: string[] = [];
  for (const [spelled, value] of listed) {
    const name = spelled.toLowerCase();
    const text = textOf(value) ?? "";
    if (!headerName.safeParse(name).success || !headerValue.safeParse(text).success) invalid.push(name);
    else if (variableOf(text) === null && secretName.test(name)) secret.push(name);
    else set[name] = toSettingText(text);
  }
  return { set, secret, invalid };
}

/** The distinguishing part of a host: `gpu-1` of `gpu-1.lan`; null for this machine and for a reference to a variable. */
function hostNameOf(url: string): string | null {
  if (!URL.canParse(url)) return null;
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(host) !== 0) return isIP(host) === 4 && host !== "127.0.0.1" && host !== "0.0.0.0" ? host : null;
  const labels = host.split(".").filter((label) => !["api", "www", "localhost"].includes(label));
  return labels[0] ?? null;
}

function nameOf(text: string): string {
  const name = text
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/_/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, 60);
  return name === "" || name === embeddedName ? "upstream" : name;
}
