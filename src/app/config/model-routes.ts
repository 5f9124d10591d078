import type { PriceList } from "../../domain/catalog/prices.js";
import type {
  Affinity,
  DeploymentAbility,
  DeploymentOperation,
  UpstreamCapabilities,
  UpstreamDefinition,
  UpstreamModel,
} from "../../domain/engine/upstream.js";
import { deploymentAbilities, deploymentOperations } from "../../domain/engine/upstream.js";
import { engineKinds } from "../engines/registry.js";
import { toDeploymentPrices } from "./live-settings.js";
import { affinityOf, deploymentIds, deploymentsOf, type ModelDeployment } from "./model-references.js";
import type { ModelSettings } from "./model-settings.js";
import type { Config } from "./schema.js";

/** How requests to a model reach its deployments, with all defaults resolved. */
export interface ModelRoute {
  readonly id: string;
  readonly affinity: Affinity;
  /** Models to use instead, in this order. */
  readonly fallbacks: readonly string[];
  /** Deployments in the order of the configuration; at least one. */
  readonly deployments: readonly DeploymentRoute[];
}

export interface DeploymentRoute {
  /** Id, which is unique among all deployments. */
  readonly id: string;
  readonly weight: number;
  /** Lower numbers are used first. */
  readonly priority: number;
  /** Maximum number of concurrent requests. */
  readonly slots: number;
  /** Maximum number of requests that wait for a slot. */
  readonly queueMax: number;
  /** Null: the prices of the model apply. */
  readonly prices: PriceList | null;
  /** Model at an upstream; null: the deployment runs in an embedded engine. */
  readonly upstream: UpstreamModel | null;
}

/** The routes of the configured models. `upstreams` has every upstream of the configuration. */
export function toModelRoutes(
  { models, upstreams: settings }: Pick<Config, "models" | "upstreams">,
  upstreams: readonly UpstreamDefinition[],
): readonly ModelRoute[] {
  const byName = new Map(upstreams.map((upstream) => [upstream.name, upstream]));
  const ids = deploymentIds(models ?? []);
  return (models ?? []).map((model, i) => ({
    id: model.id,
    affinity: affinityOf(model, settings),
    fallbacks: model.fallbacks,
    deployments: deploymentsOf(model).map((deployment, j) => ({
      id: ids[i]?.[j] ?? "",
      weight: deployment.weight,
      priority: deployment.priority,
      ...queueOf(deployment.slots ?? defaultSlots(deployment), deployment.queue_max),
      prices: toDeploymentPrices(deployment.prices),
      upstream: toUpstreamModel(model, deployment, byName.get(deployment.upstream ?? "")),
    })),
  }));
}

function defaultSlots({ engine }: ModelDeployment): number {
  return engineKinds.find(({ name }) => name === engine)?.defaults.slots ?? 1;
}

const queueMaxPerSlot = 4;
const queueMaxMax = 512;

export function queueOf(
  slots: number,
  queueMax: number | undefined,
): { readonly slots: number; readonly queueMax: number } {
  return { slots, queueMax: queueMax ?? Math.min(queueMaxPerSlot * slots, queueMaxMax) };
}

function toUpstreamModel(
  { id }: ModelSettings,
  { model, pass_through, context_length, capabilities }: ModelDeployment,
  upstream: UpstreamDefinition | undefined,
): UpstreamModel | null {
  if (upstream === undefined) return null;
  return {
    upstream,
    model: model ?? id,
    passThrough: pass_through ?? [],
    contextLength: context_length ?? null,
    capabilities: capabilities == null ? null : toCapabilities(capabilities),
  };
}

function toCapabilities(names: readonly (DeploymentOperation | DeploymentAbility)[]): UpstreamCapabilities {
  return {
    operations: deploymentOperations.filter((name) => names.includes(name)),
    abilities: deploymentAbilities.filter((name) => names.includes(name)),
  };
}
