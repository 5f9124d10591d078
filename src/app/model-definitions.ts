import type { ModelDefinition } from "../domain/catalog/model-definition.js";
import type { Engine } from "../domain/inference/engine.js";
import type { Config } from "./config/schema.js";

type ModelSettings = Config["models"][number];
type DeploymentSettings = Omit<NonNullable<ModelSettings["deployments"]>[number], "upstream" | "model">;

const defaultContextLength = 4096;
const defaultSlots = 64;
const queueMaxPerSlot = 4;
const queueMaxMax = 512;
/** Length of the vectors of a scripted model that is only said to make embeddings. */
const defaultDimensions = 8;

/** The engines that the configuration can name. */
export interface Engines {
  readonly scripted: Engine;
}

/** The catalog's entries as the domain knows them. */
export function toModelDefinitions(models: Config["models"], engines: Engines): readonly ModelDefinition[] {
  return models.map((model) => ({
    id: model.id,
    ownedBy: model.owned_by,
    capabilities: model.capabilities ?? null,
    deployments: deploymentsOf(model).map((deployment) => {
      const slots = deployment.slots ?? defaultSlots;
      return {
        engine: engines.scripted,
        contextLength: deployment.context_length ?? deployment.scripted?.context_length ?? defaultContextLength,
        slots,
        queueMax: deployment.queue_max ?? Math.min(queueMaxPerSlot * slots, queueMaxMax),
        weight: deployment.weight,
        options: scriptedOptions(model, deployment),
      };
    }),
  }));
}

/** The shorthand is one deployment. */
function deploymentsOf(model: ModelSettings): readonly DeploymentSettings[] {
  if (model.deployments !== undefined) return model.deployments;
  const { scripted, context_length, slots, queue_max } = model;
  return [{ engine: "scripted", scripted, context_length, slots, queue_max, weight: 1 }];
}

function scriptedOptions(model: ModelSettings, deployment: DeploymentSettings): object {
  const makesEmbeddings = model.capabilities?.includes("embeddings") === true;
  return { ...(makesEmbeddings ? { dimensions: defaultDimensions } : {}), ...deployment.scripted };
}
