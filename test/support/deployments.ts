import type { DeploymentDefinition } from "../../src/domain/catalog/deployment.js";
import type { Engine } from "../../src/domain/engine/engine.js";

/** The draining deployments: none. */
export const noDrains = { has: () => false, onChange: () => {} };

/** A deployment in this process with 4 slots, a queue of 16 and a context of 4,096 tokens. */
export function deploymentOn(engine: Engine, changes: Partial<DeploymentDefinition> = {}): DeploymentDefinition {
  return {
    engine,
    id: null,
    upstream: null,
    upstreamModel: null,
    contextLength: 4096,
    slots: 4,
    queueMax: 16,
    weight: 1,
    priority: 0,
    prices: null,
    keepAliveMs: null,
    options: {},
    ...changes,
  };
}
