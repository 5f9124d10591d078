import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../domain/call/ports.js";
import { invariant, ServiceError } from "../../domain/call/service-error.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { Capability, CatalogModel, LiveSettings, ModelDefinition } from "../../domain/catalog/catalog-model.js";
import type { ModelStore, StoredModel } from "../../domain/catalog/model-store.js";
import type { Engine } from "../../domain/engine/engine.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { embeddedName } from "../../domain/engine/upstream-forms.js";
import { toPriceList, toRequestDefaults } from "../config/live-settings.js";
import { deploymentsOf, type ModelDeployment } from "../config/model-references.js";
import { queueOf, toModelRoutes } from "../config/model-routes.js";
import type { ModelSettings } from "../config/model-settings.js";
import type { Config } from "../config/schema.js";
import { type EngineName, engineKind } from "../engines/registry.js";

interface FillCatalogDeps {
  readonly catalog: Catalog;
  readonly engines: Engines;
  readonly modelStore: Pick<ModelStore, "list" | "defaults" | "idOf">;
  /** The configured models. If `models` is not set, the default catalog is used. */
  readonly configured: ConfiguredModels;
  /** Source of the chat model from `--model`, which replaces the default one. */
  readonly chatSource: string | null;
  readonly log: Logger;
}

/** Progress of models that are in the catalog and are still being loaded. */
interface Filling {
  /** Settles when the chat model is chosen: the first choice or a fallback. */
  readonly chosen: Promise<void>;
  /** Settles when every model is loaded or has failed. */
  readonly loaded: Promise<void>;
}

/**
 * Lists the configured models, or those of the default catalog, and begins to load them. Resolves when all of them are
 * in the catalog: afterwards requests for other models are rejected as unknown models. Rejects when the store fails.
 */
export async function fillCatalog(deps: FillCatalogDeps): Promise<Filling> {
  const { catalog, configured, engines } = deps;
  if (configured.config.models === null) return await fillWithDefaults(deps);
  const definitions = toModelDefinitions(configured, engines);
  return await whenListed(catalog, definitions, { chosen: Promise.resolve(), loaded: catalog.replace(definitions) });
}

/**
 * The default catalog: the models stored on this machine, and of each kind (chat, embedding) that is not among them the
 * default model, which its engine downloads. With upstreams nothing is downloaded: their models are offered.
 */
async function fillWithDefaults(deps: FillCatalogDeps): Promise<Filling> {
  const { catalog, engines, modelStore: store, chatSource } = deps;
  const stored = await store.list();
  const has = (kind: "chat" | "embedding"): boolean => stored.some((model) => model.kind === kind);
  const byId = new Map(stored.map((model) => [model.id, toStoredModelDefinition(model, engines)]));
  const add = (definition: ModelDefinition): unknown => byId.set(definition.id, definition);
  if (chatSource !== null) add(llamaDefinition(store.idOf(chatSource), chatSource, engines));
  const downloads = deps.configured.upstreams.length === 0;
  if (downloads && !has("embedding"))
    add(toStoredModelDefinition({ id: store.defaults.embedding, kind: "embedding" }, engines));

  const definitions = [...byId.values()];
  const loaded = catalog.replace(definitions);
  if (!downloads || chatSource !== null || has("chat")) {
    return await whenListed(catalog, definitions, { chosen: Promise.resolve(), loaded });
  }
  const attempts = store.defaults.chat.map((id) => toStoredModelDefinition({ id, kind: "chat" }, engines));
  const chat = putFirstThatLoads(deps, attempts);
  const both = Promise.all([loaded, chat.loaded]).then(() => {});
  return await whenListed(catalog, [...definitions, ...attempts.slice(0, 1)], { chosen: chat.chosen, loaded: both });
}

/** Resolves when the catalog has listed all definitions, or the load has ended. */
async function whenListed(catalog: Catalog, definitions: readonly ModelDefinition[], filling: Filling) {
  const areListed = (): boolean => {
    const ids = new Set(catalog.all().map(({ id }) => id));
    return definitions.every(({ id }) => ids.has(id));
  };
  if (areListed()) return filling;
  const listed = new Promise<void>((resolve) => {
    const unsubscribe = catalog.onChange(() => {
      if (!areListed()) return;
      unsubscribe();
      resolve();
    });
  });
  await Promise.race([listed, filling.loaded]);
  return filling;
}

/** The last fallback counts as chosen after this time. Without any network it fails earlier. */
const earlyFailureMs = 1_000;

/** Tries the default chat models in order until one loads. Each has an id of its own, so that a fallback is recognizable. */
function putFirstThatLoads({ catalog, log }: FillCatalogDeps, attempts: readonly ModelDefinition[]): Filling {
  let choose = (): void => {};
  const chosen = new Promise<void>((resolve) => {
    choose = resolve;
  });
  const attempt = async (): Promise<void> => {
    for (const [i, definition] of attempts.entries()) {
      const next = attempts[i + 1];
      const put = catalog.put(next === undefined ? definition : withSubstitute(definition));
      if (next === undefined) {
        void Promise.race([put, delay(earlyFailureMs, undefined, { ref: false })]).then(choose, choose);
      }
      const model = await put;
      if (!model.hasFailed || catalog.isClosed) return;
      if (next === undefined) break;
      reportSubstitute(log, model, next.id);
    }
    log.error(
      {
        fix:
          "download one from a mirror: HF_ENDPOINT=https://mirror.example uis models pull hf:owner/repo/file.gguf@revision; " +
          "or import a file: uis models import FILE; or configure another engine in uis.yaml",
      },
      "no chat model could be loaded",
    );
  };
  return { chosen, loaded: attempt().finally(choose) };
}

function withSubstitute(definition: ModelDefinition): ModelDefinition {
  const deployments = definition.deployments.map((deployment) => ({ ...deployment, hasSubstitute: true }));
  return { ...definition, deployments };
}

/**
 * Logs that the next model is tried. An unreachable hub is an expected condition: status pages then show the model as not
 * loaded. A file that cannot be used is an error, and the model is shown as failed.
 */
function reportSubstitute(log: Logger, model: CatalogModel, substitute: string): void {
  const { id, deployments } = model;
  const failure = deployments[0]?.failure ?? null;
  const isUnreachable = failure?.cause instanceof ServiceError && failure.cause.code === "upstream_error";
  if (!isUnreachable) {
    log.error({ err: failure }, `${id} cannot be used: using the small model ${substitute} instead`);
    return;
  }
  const reason = rootOf(failure).message;
  model.replacedReason = `It cannot be downloaded, so the small model ${substitute} is used instead: ${reason}`;
  log.info({ reason }, `${id} cannot be downloaded: using the small model ${substitute} instead`);
}

/** The error that caused all others. */
function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}

/** Default context length, in tokens of prompt and answer together. */
export const defaultContextLength = 4096;
/** Vector length of a scripted embedding model whose configuration sets none. */
const defaultDimensions = 8;
export const ownOrganisation = "unified-inference";

/** Every engine of the configuration, by name. */
export type Engines = Readonly<Record<EngineName, Engine>>;

/** Options of a model of the embedded engine. */
export interface LlamaOptions {
  readonly id: string;
  /** Source of the file; null for a default model, and for a model that is stored under its id. */
  readonly source: string | null;
  /** SHA-256 of the file, lower-case hex; null if unknown. */
  readonly sha256: string | null;
}

const inThisProcess = {
  upstream: null,
  upstreamModel: null,
  weight: 1,
  priority: 0,
  prices: null,
  keepAliveMs: null,
} as const;

/** The configured models and the definitions of the upstreams that they name. */
export interface ConfiguredModels {
  readonly config: Pick<Config, "models" | "upstreams">;
  readonly upstreams: readonly UpstreamDefinition[];
}

/** The configured models as catalog entries. */
export function toModelDefinitions(
  { config, upstreams }: ConfiguredModels,
  engines: Engines,
): readonly ModelDefinition[] {
  const routes = toModelRoutes(config, upstreams);
  return (config.models ?? []).map((model, i) => ({
    id: model.id,
    ownedBy: model.owned_by,
    capabilities: model.capabilities ?? null,
    ...toLiveSettings(model),
    affinity: routes[i]?.affinity ?? "none",
    fallbacks: model.fallbacks,
    deployments: deploymentsOf(model).map((deployment, j) => {
      const { name } = engineKind(deployment.engine);
      const route = routes[i]?.deployments[j];
      invariant(route !== undefined, "a deployment has a route");
      const { upstream, ...routed } = route;
      return {
        ...routed,
        engine: engines[name],
        upstream: upstream?.upstream.name ?? null,
        upstreamModel: upstream?.model ?? null,
        keepAliveMs: model.keep_alive,
        contextLength: deployment.context_length ?? deployment.scripted?.context_length ?? defaultContextLength,
        options: upstream ?? optionsOf[name](model, deployment),
      };
    }),
  }));
}

/** Settings that can change without loading the model again. */
export function toLiveSettings({ prices, defaults }: ModelSettings): LiveSettings {
  return { prices: toPriceList(prices), defaults: toRequestDefaults(defaults) };
}

/** Catalog entry of a model stored on this machine. */
export function toStoredModelDefinition(
  { id, kind }: Pick<StoredModel, "id" | "kind">,
  engines: Engines,
): ModelDefinition {
  const capabilities: readonly Capability[] = kind === "chat" ? ["chat", "completions"] : ["embeddings"];
  return { ...llamaDefinition(id, null, engines), capabilities };
}

/** A model of the embedded engine with default slots and context; its capabilities are read when it is loaded. */
function llamaDefinition(id: string, source: string | null, engines: Engines): ModelDefinition {
  const options: LlamaOptions = { id, source, sha256: null };
  const { slots } = engineKind("llama").defaults;
  const contextLength = defaultContextLength;
  const deployment = {
    id: `${embeddedName}/${id}`,
    engine: engines.llama,
    contextLength,
    ...queueOf(slots, undefined),
    ...inThisProcess,
    options,
  };
  const unset = { capabilities: null, prices: [], defaults: null, affinity: "none", fallbacks: [] } as const;
  return { id, ownedBy: ownOrganisation, ...unset, deployments: [deployment] };
}

/** The options of each engine, as its `load` reads them. */
const optionsOf: Readonly<Record<EngineName, (model: ModelSettings, deployment: ModelDeployment) => object>> = {
  llama(model, { source = null, sha256 }) {
    return { id: model.id, source, sha256: sha256?.toLowerCase() ?? null } satisfies LlamaOptions;
  },
  // A deployment of an upstream has its own options, which readUpstreams and toModelRoutes resolve.
  openai: () => ({}),
  scripted(model, { scripted }) {
    const does = (capability: Capability): boolean => model.capabilities?.includes(capability) === true;
    return {
      ...(does("embeddings") ? { dimensions: defaultDimensions } : {}),
      ...(does("rerank") ? { rerank: true } : {}),
      ...scripted,
    };
  },
};
