import { isDeepStrictEqual } from "node:util";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Logger } from "../../domain/call/ports.js";
import type { LiveSettings, ModelDefinition } from "../../domain/catalog/catalog-model.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { isSameList } from "../../lib/collections.js";
import { isObject } from "../../lib/json-string.js";
import type { TlsFiles } from "../../lib/network.js";
import type { Parts } from "../compose/compose.js";
import { toLiveSettings, toModelDefinitions } from "../compose/model-catalog.js";
import { limitSettingName, liveLimitNames, toRateLimitDefaults, toServiceLimits } from "../config/limits-settings.js";
import type { ModelSettings } from "../config/model-settings.js";
import type { Config } from "../config/schema.js";
import { loadOpsToken, loadTls, type TlsSettings, watchTlsFiles } from "../process/listeners.js";

export interface ReloadDeps {
  /** The configuration at the start, with the upstreams that it defines. */
  readonly config: Config;
  readonly upstreams: readonly UpstreamDefinition[];
  /** The TLS files that the listeners use; null if TLS is off. */
  readonly tls: TlsFiles | null;
  readonly limits: LiveLimits;
  readonly parts: Pick<
    Parts,
    "catalog" | "discovery" | "upstreams" | "engines" | "http" | "grpc" | "ops" | "limitBook"
  >;
  readonly log: Logger;
  /** Awaits a promise in the background and logs its failure. */
  readonly track: (what: string, promise: Promise<unknown>) => void;
}

/** Applies a changed configuration while the service runs. */
export interface Reload {
  /**
   * Replaces models, upstreams, prices, defaults, limits, rate limits, TLS files and the operators' token, and logs which
   * other changes need a restart. Rejects, and changes nothing, if one of these files is unusable.
   */
  apply(next: Config, upstreams: readonly UpstreamDefinition[]): Promise<void>;
  close(): void;
}

/** Settings that can be replaced; all others are read once, at the start. */
const swapped = ["models", "upstreams", "server.tls", "server.ops_token_file", "rate_limits"];
const swappedLimits: ReadonlySet<string> = new Set(liveLimitNames.map((name) => `limits.${limitSettingName(name)}`));

export function createReload({ config, upstreams: atStart, tls, limits, parts, log, track }: ReloadDeps): Reload {
  let current = config;
  let upstreams = atStart;
  let tlsInUse = tls;
  let definitions = toModelDefinitions({ config, upstreams }, parts.engines);
  let unwatch = watch(config.server.tls);

  function watch(settings: TlsSettings): () => void {
    return watchTlsFiles(settings, () => track("reloading the TLS files", swapTls(settings)));
  }

  async function swapTls(settings: TlsSettings): Promise<void> {
    const next = await loadTls(settings);
    if (next === null || isDeepStrictEqual(next, tlsInUse)) return;
    tlsInUse = next;
    parts.http.reloadTls(next);
    parts.grpc.reloadTls(next);
    log.info({ cert_file: settings.cert_file }, "TLS files reloaded");
  }

  return {
    async apply(next, nextUpstreams) {
      const changed = changedSettings(current, next);
      const waiting = changed.filter((name) => !isSwapped(name, current, next));
      const opsToken = await loadOpsToken(next.server);
      await swapTls(next.server.tls);
      parts.ops?.setToken(opsToken);
      const changedLimits = changed.filter((name) => swappedLimits.has(name));
      if (changedLimits.length > 0) {
        limits.swap(toServiceLimits(next.limits));
        parts.http.reloadTimeouts();
        log.info({ settings: changedLimits }, "limits reloaded");
      }
      if (!isDeepStrictEqual(current.rate_limits, next.rate_limits)) {
        parts.limitBook.setDefaults(toRateLimitDefaults(next.rate_limits));
        log.info({}, "rate limits reloaded");
      }
      const formerUpstreams = upstreams;
      upstreams = keepEqual(formerUpstreams, nextUpstreams);
      const hasSameUpstreams = isSameList(formerUpstreams, upstreams);
      // Ids of configured models are not offered by upstreams.
      if (!hasSameUpstreams || !isDeepStrictEqual(current.models, next.models)) {
        parts.upstreams.take({ config: next, upstreams });
        track("discovering models", parts.upstreams.offer());
      }
      if (current.models !== null && next.models !== null) {
        parts.catalog.revise(changedLiveSettings(current.models, next.models));
        const former = definitions;
        definitions = toModelDefinitions({ config: next, upstreams }, parts.engines);
        const unchanged = unchangedModels(former, definitions);
        if (unchanged.size < definitions.length || former.length !== definitions.length) {
          track("loading the models", replaceModels(parts, definitions, unchanged));
          log.info({ models: definitions.map(({ id }) => id) }, "models reloaded");
        }
      }
      if (waiting.length > 0) log.warn({ settings: waiting }, "changed settings need a restart");
      if (!isDeepStrictEqual(current.server.tls, next.server.tls)) {
        unwatch();
        unwatch = watch(next.server.tls);
      }
      current = next;
    },
    close: () => unwatch(),
  };
}

/** The new values, but with the former object for each equal value, so that unchanged objects stay in use. */
function keepEqual<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return after.map((value) => before.find((former) => isDeepStrictEqual(former, value)) ?? value);
}

/** Prices and defaults of the models for which they differ, by id. */
function changedLiveSettings(
  before: readonly ModelSettings[],
  after: readonly ModelSettings[],
): ReadonlyMap<string, LiveSettings> {
  const former = new Map(before.map((model) => [model.id, toLiveSettings(model)]));
  const settings = after.map((model) => [model.id, toLiveSettings(model)] as const);
  return new Map(settings.filter(([id, live]) => !isDeepStrictEqual(former.get(id), live)));
}

/** Replaces the configured models. Discovered models stay; they can get ids that are no longer configured. */
async function replaceModels(
  { catalog, discovery }: ReloadDeps["parts"],
  configured: readonly ModelDefinition[],
  unchanged: ReadonlySet<string>,
): Promise<void> {
  const { models } = discovery;
  const kept = new Set([...unchanged, ...models.map(({ id }) => id)]);
  await catalog.replace([...configured, ...models], kept, "finish");
  discovery.refresh();
}

/** Ids of models that differ at most in live settings. These are replaced in place, and the models are not loaded again. */
function unchangedModels(before: readonly ModelDefinition[], after: readonly ModelDefinition[]): ReadonlySet<string> {
  const former = new Map(before.map((model) => [model.id, withoutLiveSettings(model)]));
  const same = after.filter((model) => isDeepStrictEqual(former.get(model.id), withoutLiveSettings(model)));
  return new Set(same.map(({ id }) => id));
}

function withoutLiveSettings({ prices: _, defaults: __, ...model }: ModelDefinition): object {
  return model;
}

/**
 * TLS files can be renewed, but a listener cannot switch between TLS and plain text; and the default models are chosen only
 * at the start.
 */
function isSwapped(name: string, before: Config, after: Config): boolean {
  if (swappedLimits.has(name)) return true;
  if (!swapped.some((prefix) => name.startsWith(prefix))) return false;
  if (name === "models") return before.models !== null && after.models !== null;
  const isOn = ({ server }: Config) => server.tls.cert_file !== null;
  return !name.startsWith("server.tls") || isOn(before) === isOn(after);
}

/** Names of the settings that differ: `server.port`, `models`. */
function changedSettings(before: Config, after: Config): string[] {
  const old = new Map<string, unknown>(Object.entries(before));
  return Object.entries<unknown>(after).flatMap(([group, value]) => {
    const oldValue = old.get(group);
    if (isDeepStrictEqual(oldValue, value)) return [];
    if (!isObject(value) || !isObject(oldValue)) return [group];
    const names = Object.keys(value).filter((name) => !isDeepStrictEqual(oldValue[name], value[name]));
    return names.map((name) => `${group}.${name}`);
  });
}

/** The limits of a running service. */
export interface LiveLimits {
  /** One object for all parts, which read its fields when they need them: a swap changes it in place. */
  readonly now: ServiceLimits;
  /** Replaces the limits that can change while the service runs; the others keep their values of the start. */
  swap(next: ServiceLimits): void;
}

export function createLiveLimits(atStart: ServiceLimits): LiveLimits {
  const now: { -readonly [Name in keyof ServiceLimits]: number } = { ...atStart };
  return {
    now,
    swap(next) {
      for (const name of liveLimitNames) now[name] = next[name];
    },
  };
}
