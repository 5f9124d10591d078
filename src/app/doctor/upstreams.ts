import type { UpstreamDefinition, UpstreamKind } from "../../domain/engine/upstream.js";
import { type StoredUpstream, toDefinition } from "../../domain/upstreams/upstream-store.js";
import { createSystemClock } from "../../lib/clock.js";
import { SecretBox, UnsealError } from "../../lib/crypto.js";
import { printableLine } from "../../lib/display-text.js";
import { readMasterKey } from "../compose/master-key.js";
import { listStoredUpstreams } from "../compose/state.js";
import { examineUpstream } from "../compose/upstream-check.js";
import { toServiceLimits } from "../config/limits-settings.js";
import { deploymentsOf } from "../config/model-references.js";
import type { Config } from "../config/schema.js";
import { StartError } from "../process/lifecycle.js";
import { type Check, ok, silentLog, warn } from "./check.js";

/** Whether each upstream lists its models, including the configured ones. A failure is a warning: a start works without. */
export async function upstreamChecks(
  { models }: Pick<Config, "models">,
  upstreams: readonly UpstreamDefinition[],
): Promise<readonly Check[]> {
  return Promise.all(upstreams.map((upstream) => upstreamCheck(upstream, modelsAt(upstream.name, models ?? []))));
}

/**
 * Runs `upstreamChecks` for the upstreams in the store, without starting a service. Stored upstreams with the name of a
 * configured one are left out. `config.data_dir` is absolute; `masterKey` null: the one in the data folder is used.
 */
export async function storedUpstreamChecks(config: Config, masterKey: Buffer | null): Promise<readonly Check[]> {
  const tools = { clock: createSystemClock(), log: silentLog };
  const stored = await listStoredUpstreams(config, tools);
  const used = stored.filter(({ name }) => !Object.hasOwn(config.upstreams, name));
  if (used.length === 0) return [];
  const secrets = await secretsOf(config, masterKey);
  const { deadlineMs } = toServiceLimits(config.limits);
  const checks: Check[] = [];
  for (let i = 0; i < used.length; i += concurrentMax) {
    const some = used.slice(i, i + concurrentMax);
    checks.push(...(await Promise.all(some.map((one) => storedCheck(one, secrets, deadlineMs)))));
  }
  return checks;
}

const concurrentMax = 16;

type SecretOpener = Parameters<typeof toDefinition>[1];

/** If the master key cannot be read, `open` throws, and only upstreams without secrets can be checked. */
async function secretsOf(config: Config, masterKey: Buffer | null): Promise<SecretOpener> {
  try {
    return new SecretBox(await readMasterKey(masterKey, config.data_dir));
  } catch (cause) {
    if (!(cause instanceof StartError)) throw cause;
    return {
      open() {
        throw new UnsealError(cause.message, { cause });
      },
    };
  }
}

async function storedCheck(stored: StoredUpstream, secrets: SecretOpener, deadlineMs: number): Promise<Check> {
  try {
    return await upstreamCheck(toDefinition(stored, secrets, deadlineMs), new Set(stored.models));
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error;
    const fix = "set UIS_MASTER_KEY to the key that encrypted them, or set key and headers again";
    return warn("upstream", `${stored.name}: its key or headers cannot be decrypted: ${error.message}`, fix);
  }
}

/** Kinds that accept names of models that they do not list: azure names of deployments, llama-server any name. */
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
