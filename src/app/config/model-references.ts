import type { Affinity, UpstreamKind } from "../../domain/engine/upstream.js";
import { embeddedName, upstreamDurations } from "../../domain/engine/upstream-forms.js";
import { groupBy } from "../../lib/collections.js";
import { defaultsWithoutEffect } from "./live-settings.js";
import type { DeploymentSettings, ModelSettings } from "./model-settings.js";
import type { UpstreamSettings } from "./upstream-settings.js";

type Upstreams = Readonly<Record<string, UpstreamSettings>>;
type Report = (path: (string | number)[], message: string) => void;
/** A deployment, or the part of a model that is its only deployment. */
export type ModelDeployment = Omit<DeploymentSettings, "engine"> & {
  readonly engine: DeploymentSettings["engine"] | undefined;
};

/** Checks that ids are unique, that named upstreams exist, and that defaults of requests have an effect. */
export function checkModels(models: readonly ModelSettings[], upstreams: Upstreams, report: Report): void {
  const ids = new Set<string>();
  models.forEach(({ id }, i) => {
    if (ids.has(id)) report(["models", i, "id"], `"${id}" is used by another model`);
    ids.add(id);
  });
  const taken = new Set<string>();
  eachDeployment(models, (deployment, path) => {
    checkUpstream(deployment, path, upstreams, report);
    const { id } = deployment;
    if (id == null) return;
    if (taken.has(id)) report([...path, "id"], `"${id}" is used by another deployment`);
    taken.add(id);
  });
  models.forEach((model, i) => {
    checkDefaults(model, ["models", i, "defaults"], upstreams, report);
  });
}

/** A fallback and the models that name it. */
interface NamedFallback {
  readonly id: string;
  readonly models: readonly string[];
}

/** Fallbacks that are not in `models`. Discovered and pulled models may have their ids. */
export function unconfiguredFallbacks(models: readonly ModelSettings[]): readonly NamedFallback[] {
  const ids = new Set(models.map(({ id }) => id));
  const named = models.flatMap(({ id: model, fallbacks }) => fallbacks.map((id) => ({ id, model })));
  const groups = groupBy(
    named.filter(({ id }) => !ids.has(id)),
    ({ id }) => id,
  );
  return [...groups].map(([id, group]) => ({ id, models: group.map(({ model }) => model) }));
}

/** Whether the models of a configured upstream are listed. */
export function discoversModels(models: readonly ModelSettings[], upstreams: Upstreams): boolean {
  return Object.keys(upstreams).some((name) => discoverMs(name, models, upstreams) !== null);
}

function checkUpstream({ upstream }: ModelDeployment, path: Path, upstreams: Upstreams, report: Report): void {
  if (upstream == null || Object.hasOwn(upstreams, upstream)) return;
  const names = Object.keys(upstreams);
  const choice = names.length === 0 ? "there is none" : `there are ${names.join(", ")}`;
  report([...path, "upstream"], `"${upstream}" is not in upstreams: add it there, or name another; ${choice}`);
}

/** Checks that each default has an effect on every deployment. */
function checkDefaults(model: ModelSettings, path: Path, upstreams: Upstreams, report: Report): void {
  const refused = new Set<string>();
  for (const { upstream } of deploymentsOf(model)) {
    const kind = upstreams[upstream ?? ""]?.kind;
    if (kind === undefined) continue;
    for (const name of defaultsWithoutEffect(model.defaults, kind)) {
      if (refused.has(name)) continue;
      refused.add(name);
      const message = `is not an option of the upstream "${upstream}" of kind ${kind}: remove it`;
      report([...path, name], `${message}, or set another kind if the server has it`);
    }
  }
}

type Path = readonly (string | number)[];

function eachDeployment(
  models: readonly ModelSettings[],
  visit: (deployment: ModelDeployment, path: Path) => void,
): void {
  models.forEach((model, i) => {
    const inList = model.deployments !== undefined;
    deploymentsOf(model).forEach((one, j) => {
      visit(one, inList ? ["models", i, "deployments", j] : ["models", i]);
    });
  });
}

/** A model without a list of deployments is one deployment by itself. */
export function deploymentsOf(model: ModelSettings): readonly ModelDeployment[] {
  if (model.deployments !== undefined) return model.deployments;
  const { capabilities: _, ...shared } = model;
  return [{ ...shared, id: null, engine: model.engine, capabilities: null, weight: 1, priority: 0, prices: {} }];
}

/** Interval at which the models of an upstream are listed; null: never. */
export function discoverMs(name: string, models: readonly ModelSettings[], upstreams: Upstreams): number | null {
  const set = upstreams[name]?.discover ?? null;
  if (set !== null) return set === "off" ? null : set;
  const isNamed = models.some((model) => deploymentsOf(model).some(({ upstream }) => upstream === name));
  return isNamed ? null : upstreamDurations.discover.default;
}

/** Kinds of servers with a cache of computed prompts. */
const cachingKinds: readonly UpstreamKind[] = ["vllm", "sglang", "llama-server"];

export function affinityOf(model: ModelSettings, upstreams: Upstreams): Affinity {
  return model.affinity ?? defaultAffinity(deploymentsOf(model).map(({ upstream }) => upstreams[upstream ?? ""]?.kind));
}

/** Affinity of a model with deployments on upstreams of these kinds; undefined: on an embedded engine. */
export function defaultAffinity(kinds: readonly (UpstreamKind | undefined)[]): Affinity {
  return kinds.filter((kind) => kind !== undefined && cachingKinds.includes(kind)).length > 1 ? "prefix" : "none";
}

/**
 * The ids of all deployments, model by model: as set, else the default, which gets `#2`, `#3` and so on where the id is
 * taken. An id depends only on the entries before it and on the ids that are set.
 */
export function deploymentIds(models: readonly ModelSettings[]): readonly (readonly string[])[] {
  const taken = new Set<string>();
  eachDeployment(models, ({ id }) => {
    if (id != null) taken.add(id);
  });
  return models.map((model) =>
    deploymentsOf(model).map(({ id, upstream, model: upstreamModel }) => {
      if (id != null) return id;
      return takeId(
        upstream == null ? `${embeddedName}/${model.id}` : `${upstream}/${upstreamModel ?? model.id}`,
        taken,
      );
    }),
  );
}

/** Adds an id to the taken ones and returns it: `base`, or with `#2`, `#3` and so on where that is taken. */
export function takeId(base: string, taken: Set<string>): string {
  let free = base;
  for (let number = 2; taken.has(free); number += 1) free = `${base}#${number}`;
  taken.add(free);
  return free;
}
