import type { UpstreamDefinition, UpstreamKind } from "../../domain/engine/upstream.js";
import { printableLine } from "../../lib/display-text.js";
import { examineUpstream } from "../compose/upstream-check.js";
import { deploymentsOf } from "../config/model-references.js";
import type { Config } from "../config/schema.js";
import { type Check, ok, warn } from "./check.js";

/** Whether each upstream lists its models, and the configured ones among them. A start does not depend on it. */
export async function upstreamChecks(
  { models }: Pick<Config, "models">,
  upstreams: readonly UpstreamDefinition[],
): Promise<readonly Check[]> {
  return Promise.all(upstreams.map((upstream) => upstreamCheck(upstream, modelsAt(upstream.name, models ?? []))));
}

/** Kinds whose lists do not have every name that they accept: of deployments, and any name at all. */
const partialLists: readonly UpstreamKind[] = ["azure", "llama-server"];

/** `wanted`: ids on the server that the configuration uses. */
async function upstreamCheck(upstream: UpstreamDefinition, wanted: ReadonlySet<string>): Promise<Check> {
  const { name, url, kind } = upstream;
  const checked = await examineUpstream(upstream);
  if ("problem" in checked) return warn("upstream", `${name}: ${checked.problem}`, checked.fix);
  const { models, latencyMs } = checked.facts;
  const listed = new Set(models.map(({ id }) => id));
  const missing = partialLists.includes(kind) ? [] : [...wanted].filter((id) => !listed.has(id));
  if (missing.length > 0) {
    const detail = printableLine(`${name}: ${url} does not list ${missing.join(", ")}`);
    return warn("upstream", detail, `load the model there, or correct its name; uis upstreams check ${url}`);
  }
  const count = models.length === 1 ? "1 model" : `${models.length} models`;
  return ok("upstream", `${name}: ${url} lists ${count}, in ${latencyMs} ms`);
}

function modelsAt(name: string, models: NonNullable<Config["models"]>): ReadonlySet<string> {
  const deployments = models.flatMap((model) => deploymentsOf(model).map((one) => ({ ...one, ofModel: model.id })));
  return new Set(deployments.filter(({ upstream }) => upstream === name).map(({ model, ofModel }) => model ?? ofModel));
}
