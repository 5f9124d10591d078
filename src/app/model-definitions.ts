import type { Capability, ModelDefinition, PriceList } from "../domain/catalog/model-definition.js";
import type { StoredModel } from "../domain/catalog/model-store.js";
import type { Engine } from "../domain/engine/engine.js";
import type { Config } from "./config/schema.js";

type ModelSettings = NonNullable<Config["models"]>[number];
type DeploymentSettings = Omit<NonNullable<ModelSettings["deployments"]>[number], "upstream" | "model">;

/** Tokens of prompt and answer together, where the configuration does not say. */
export const defaultContextLength = 4096;
/** Requests that run at once: the embedded engine keeps memory for each. */
export const defaultSlots = { scripted: 64, llama: 4 } as const;
const queueMaxPerSlot = 4;
const queueMaxMax = 512;
/** Length of the vectors of a scripted model that is only said to make embeddings. */
const defaultDimensions = 8;
const ownOrganisation = "unified-inference";

/** The engines that the configuration can name. */
export interface Engines {
  readonly scripted: Engine;
  readonly llama: Engine;
}

/** What the embedded engine is told about a model beside its id: where its file is to be had. */
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
      engine: engines[engineOf(deployment)],
      contextLength: deployment.context_length ?? deployment.scripted?.context_length ?? defaultContextLength,
      ...queueOf(deployment.slots ?? defaultSlots[engineOf(deployment)], deployment.queue_max),
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
export function llamaDefinition(id: string, source: string | null, engines: Engines): ModelDefinition {
  const options: LlamaOptions = { id, source, sha256: null };
  const { llama: slots } = defaultSlots;
  const contextLength = defaultContextLength;
  const deployment = { engine: engines.llama, contextLength, ...queueOf(slots, undefined), weight: 1, options };
  return { id, ownedBy: ownOrganisation, capabilities: null, prices: [], deployments: [deployment] };
}

function queueOf(slots: number, queueMax: number | undefined): { readonly slots: number; readonly queueMax: number } {
  return { slots, queueMax: queueMax ?? Math.min(queueMaxPerSlot * slots, queueMaxMax) };
}

function engineOf({ engine }: Pick<DeploymentSettings, "engine">): keyof Engines {
  return engine === "llama" ? "llama" : "scripted";
}

/** The shorthand is one deployment. */
function deploymentsOf(model: ModelSettings): readonly DeploymentSettings[] {
  if (model.deployments !== undefined) return model.deployments;
  const { engine = "scripted", scripted, context_length, slots, queue_max, source, sha256 } = model;
  return [{ engine, scripted, context_length, slots, queue_max, source, sha256, weight: 1 }];
}

function optionsOf(model: ModelSettings, deployment: DeploymentSettings): object {
  if (engineOf(deployment) === "llama") {
    const { source = null, sha256 } = deployment;
    return { id: model.id, source, sha256: sha256?.toLowerCase() ?? null } satisfies LlamaOptions;
  }
  const makesEmbeddings = model.capabilities?.includes("embeddings") === true;
  return { ...(makesEmbeddings ? { dimensions: defaultDimensions } : {}), ...deployment.scripted };
}
