import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import type { Capability, ModelDefinition, PriceList } from "../../domain/catalog/model-definition.js";
import type { ModelStore, StoredModel } from "../../domain/catalog/model-store.js";
import type { Engine } from "../../domain/engine/engine.js";
import type { Config } from "../config/schema.js";
import { type EngineName, engineKind } from "../engines/registry.js";

interface FillCatalogDeps {
  readonly catalog: Catalog;
  readonly engines: Engines;
  readonly store: Pick<ModelStore, "list" | "defaults" | "idOf">;
  /** Null: the default catalog. */
  readonly models: Config["models"];
  /** Source of the chat model that `--model` names instead of the default one. */
  readonly chatSource: string | null;
  readonly log: Logger;
}

/** Models that are listed and still load. */
interface Filling {
  /** Settles when it is known which chat model there will be: the first choice or a fallback. */
  readonly chosen: Promise<void>;
  /** Settles when every model is loaded or has failed. */
  readonly loaded: Promise<void>;
}

/**
 * Lists the configured models, or those of the default catalog, and begins to load them. Resolves when all of them are
 * listed: from then on a model that is not in the catalog does not exist. Rejects when the store fails.
 */
export async function fillCatalog(deps: FillCatalogDeps): Promise<Filling> {
  const { catalog, models, engines } = deps;
  if (models === null) return await fillWithDefaults(deps);
  const definitions = toModelDefinitions(models, engines);
  const loaded = catalog.replace(definitions);
  await Promise.race([untilListed(catalog, definitions), loaded]);
  return { chosen: Promise.resolve(), loaded };
}

/**
 * The default catalog: what is kept on this machine, and the default model of each kind (chat, embedding) that is not
 * among it, which its engine fetches.
 */
async function fillWithDefaults(deps: FillCatalogDeps): Promise<Filling> {
  const { catalog, engines, store, chatSource } = deps;
  const kept = await store.list();
  const has = (kind: "chat" | "embedding"): boolean => kept.some((model) => model.kind === kind);
  const byId = new Map(kept.map((model) => [model.id, toKeptModelDefinition(model, engines)]));
  const add = (definition: ModelDefinition): unknown => byId.set(definition.id, definition);
  if (chatSource !== null) add(llamaDefinition(store.idOf(chatSource), chatSource, engines));
  if (!has("embedding")) add(toKeptModelDefinition({ id: store.defaults.embedding, kind: "embedding" }, engines));

  const definitions = [...byId.values()];
  const loads = [catalog.replace(definitions)];
  let chosen = Promise.resolve();
  if (chatSource === null && !has("chat")) {
    const [first, ...fallbacks] = store.defaults.chat.map((id) => toKeptModelDefinition({ id, kind: "chat" }, engines));
    if (first === undefined) throw new Error("there is no default chat model");
    definitions.push(first);
    const put = putFirstThatLoads(deps, first, fallbacks);
    chosen = put.chosen;
    loads.push(put.loaded);
  }
  const loaded = Promise.all(loads).then(() => {});
  await Promise.race([untilListed(catalog, definitions), loaded]);
  return { chosen, loaded };
}

async function untilListed(catalog: Catalog, definitions: readonly ModelDefinition[]): Promise<void> {
  const areListed = (): boolean => {
    const ids = new Set(catalog.all().map(({ id }) => id));
    return definitions.every(({ id }) => ids.has(id));
  };
  if (areListed()) return;
  await new Promise<void>((resolve) => {
    const unsubscribe = catalog.onChange(() => {
      if (!areListed()) return;
      unsubscribe();
      resolve();
    });
  });
}

/** The last fallback counts as chosen unless it fails within this time, as it does where nothing can be fetched. */
const earlyFailureMs = 1_000;

/** Tries the default chat models in order until one loads. Each has its own id, so a fallback never poses as another. */
function putFirstThatLoads(
  { catalog, log }: FillCatalogDeps,
  first: ModelDefinition,
  fallbacks: readonly ModelDefinition[],
): Filling {
  let choose = (): void => {};
  const chosen = new Promise<void>((resolve) => {
    choose = resolve;
  });
  const attempts = [first, ...fallbacks];
  const attempt = async (): Promise<void> => {
    for (const [i, definition] of attempts.entries()) {
      const put = catalog.put(definition);
      if (i === attempts.length - 1) {
        void Promise.race([put, delay(earlyFailureMs, undefined, { ref: false })]).then(choose, choose);
      }
      const model = await put;
      if (!model.hasFailed) return warnOfFallback(model, i, log);
    }
    log.error(
      {},
      "no chat model could be loaded. Fetch one from a mirror: HF_ENDPOINT=https://mirror.example uis models pull hf:owner/repo/file.gguf@revision; " +
        "or import a file: uis models import FILE; or configure another engine in uis.yaml",
    );
  };
  return { chosen, loaded: attempt().finally(choose) };
}

function warnOfFallback(model: CatalogModel, position: number, log: Logger): void {
  if (position === 0) return;
  log.warn({ model: model.id }, "the first choice could not be fetched: small fallback model, demonstration quality");
}

type ModelSettings = NonNullable<Config["models"]>[number];
type DeploymentSettings = Omit<NonNullable<ModelSettings["deployments"]>[number], "upstream" | "model">;

/** Tokens of prompt and answer together, where the configuration does not say. */
export const defaultContextLength = 4096;
const queueMaxPerSlot = 4;
const queueMaxMax = 512;
/** Length of the vectors of a scripted model that is only said to make embeddings. */
const defaultDimensions = 8;
const ownOrganisation = "unified-inference";

/** The engines that the configuration can name. */
export type Engines = Readonly<Record<EngineName, Engine>>;

/** Options of a model for the embedded engine: its id and the source of its file. */
export interface LlamaOptions {
  readonly id: string;
  /** Null: it is kept on this machine under its id, or is one of the default models. */
  readonly source: string | null;
  /** Lower-case hex; null: not known. */
  readonly sha256: string | null;
}

/** The catalog's entries as the domain knows them. */
export function toModelDefinitions(models: readonly ModelSettings[], engines: Engines): readonly ModelDefinition[] {
  return models.map((model) => ({
    id: model.id,
    ownedBy: model.owned_by,
    capabilities: model.capabilities ?? null,
    prices: toPriceList(model.prices),
    deployments: deploymentsOf(model).map((deployment) => ({
      engine: engines[engineKind(deployment.engine).name],
      contextLength: deployment.context_length ?? deployment.scripted?.context_length ?? defaultContextLength,
      ...queueOf(deployment.slots ?? engineKind(deployment.engine).defaults.slots, deployment.queue_max),
      weight: deployment.weight,
      options: optionsOf(model, deployment),
    })),
  }));
}

/** What the models of the configuration cost, by id. */
export function toPrices(models: readonly ModelSettings[]): ReadonlyMap<string, PriceList> {
  return new Map(models.map(({ id, prices }) => [id, toPriceList(prices)]));
}

function toPriceList(settings: ModelSettings["prices"]): PriceList {
  const entries = Array.isArray(settings) ? settings : [{ from: 0, ...settings }];
  return entries
    .map(({ from, input, cached_input, output }) => ({
      fromMs: from,
      input,
      cachedInput: cached_input ?? input,
      output,
    }))
    .filter((entry, _, all) => all.length > 1 || entry.input + entry.cachedInput + entry.output > 0)
    .sort((a, b) => a.fromMs - b.fromMs);
}

/** How a model that is kept on this machine is run. */
export function toKeptModelDefinition(
  { id, kind }: Pick<StoredModel, "id" | "kind">,
  engines: Engines,
): ModelDefinition {
  const capabilities: readonly Capability[] = kind === "chat" ? ["chat", "completions"] : ["embeddings"];
  return { ...llamaDefinition(id, null, engines), capabilities };
}

/** A model of the embedded engine with the usual slots and context; what it does is seen when it is loaded. */
function llamaDefinition(id: string, source: string | null, engines: Engines): ModelDefinition {
  const options: LlamaOptions = { id, source, sha256: null };
  const { slots } = engineKind("llama").defaults;
  const contextLength = defaultContextLength;
  const deployment = { engine: engines.llama, contextLength, ...queueOf(slots, undefined), weight: 1, options };
  return { id, ownedBy: ownOrganisation, capabilities: null, prices: [], deployments: [deployment] };
}

function queueOf(slots: number, queueMax: number | undefined): { readonly slots: number; readonly queueMax: number } {
  return { slots, queueMax: queueMax ?? Math.min(queueMaxPerSlot * slots, queueMaxMax) };
}

/** The shorthand is one deployment. */
function deploymentsOf(model: ModelSettings): readonly DeploymentSettings[] {
  if (model.deployments !== undefined) return model.deployments;
  const { scripted, context_length, slots, queue_max, source, sha256 } = model;
  const engine = engineKind(model.engine).name;
  return [{ engine, scripted, context_length, slots, queue_max, source, sha256, weight: 1 }];
}

function optionsOf(model: ModelSettings, deployment: DeploymentSettings): object {
  if (deployment.engine === "llama") {
    const { source = null, sha256 } = deployment;
    return { id: model.id, source, sha256: sha256?.toLowerCase() ?? null } satisfies LlamaOptions;
  }
  const makesEmbeddings = model.capabilities?.includes("embeddings") === true;
  return { ...(makesEmbeddings ? { dimensions: defaultDimensions } : {}), ...deployment.scripted };
}
