import { stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { StoredModel } from "../../domain/catalog/model-store.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import { byteText } from "../../lib/display-text.js";
import { inspectModelFile, modelSources, openModelStore } from "../compose/model-store.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, type OtherClock, ok, warn } from "./check.js";
import { memoryCheck } from "./engine.js";

const hubTimeoutMs = 5_000;
/** What is unpacked or converted lies beside what was fetched for a while. */
const roomFactor = 2;
const otherWays = "uis models import FILE; or configure another engine in uis.yaml";

/** What is left free for logs, usage and deliveries. */
const freeBytesMin = 1_000_000_000;

type ModelKind = StoredModel["kind"];

/** Models on this machine and where more of them come from. */
interface ModelFindings {
  readonly checks: readonly Check[];
  /** The hub's; null: it was not asked, or does not tell. */
  readonly clock: OtherClock | null;
}

/**
 * Whether models are kept and fit, and whether more can be had. `config.data_dir` absolute; `list` gives what is kept and
 * rejects when that cannot be understood.
 */
export async function lookAtModels(
  config: Config,
  env: Variables,
  list: () => Promise<readonly StoredModel[]>,
): Promise<ModelFindings> {
  const { checks, missing } = await keptModels(config, list);
  const hub = await lookAtHub(config, env);
  const others = await Promise.all([pipCheck(config, env), diskCheck(config, env, missing)]);
  return { checks: [...checks, ...hub.checks, ...others], clock: hub.clock };
}

/** What is kept, and of which kinds a first start would fetch a default model. */
async function keptModels(config: Config, list: () => Promise<readonly StoredModel[]>) {
  const hasOwnCatalog = config.models !== null;
  try {
    const kept = await list();
    const files = await filesToImport(config, kept);
    const missing = (["chat", "embedding"] as const).filter(
      (kind) => !hasOwnCatalog && !kept.some((model) => model.kind === kind),
    );
    const memory = await memoryCheck(config, [...kept, ...files]);
    return { checks: [keptCheck(config, kept.length, missing), memory], missing };
  } catch (error) {
    const check = fail("models", reasonOf(error), "correct it, or choose another --data-dir");
    return { checks: [check], missing: [] };
  }
}

/** Models that a start imports from files of this machine. Rejects when such a file is missing or is no model. */
async function filesToImport({ models }: Config, kept: readonly StoredModel[]) {
  const sources = (models ?? []).flatMap((model) =>
    (model.deployments ?? [model]).map(({ source }) => ({ id: model.id, source: source ?? "" })),
  );
  const wanted = sources.filter(({ id, source }) => source.startsWith("file:") && !kept.some((one) => one.id === id));
  return await Promise.all(
    wanted.map(async ({ id, source }) => {
      const path = source.slice("file:".length);
      const found = await stat(path).catch((cause: unknown) => {
        throw new Error(`the file of the model ${id} cannot be read: ${reasonOf(cause)}`, { cause });
      });
      // Folders and wheels are converted first: what they become is not known before.
      const facts = path.endsWith(".gguf") ? await inspectModelFile(path) : null;
      const contextLength = facts?.contextLength ?? Number.POSITIVE_INFINITY;
      return { id, kind: facts?.kind ?? ("embedding" as const), path, bytes: found.size, contextLength };
    }),
  );
}

function keptCheck({ models, data_dir }: Config, count: number, missing: readonly ModelKind[]): Check {
  const detail = `${count} kept in ${data_dir}`;
  if (models !== null) return ok("models", `${detail}; the configuration says which are used`);
  if (!missing.includes("chat")) return ok("models", detail);
  const fix = `uis models pull hf:owner/repo/file.gguf@revision (HF_ENDPOINT names a mirror); or ${otherWays}`;
  return warn("models", `${detail}, none of them for chat: a start tries to fetch one`, fix);
}

/** What is kept in the data folder of a service that may not run; looking makes no folder. */
export async function listInFolder(config: Config, env: Variables): Promise<readonly StoredModel[]> {
  if ((await stat(config.data_dir).catch(() => null)) === null) return [];
  const store = await openModelStore(config, env, createSystemClock());
  try {
    return await store.list();
  } finally {
    await store.close();
  }
}

/** Whether the hub answers in time; not asked when nothing may be fetched. */
async function lookAtHub(config: Config, env: Variables): Promise<ModelFindings> {
  if (config.offline) return { checks: [ok("hub", "not asked: offline")], clock: null };
  const sources = modelSources(config, env);
  try {
    const atMs = await sources.askHub(AbortSignal.timeout(hubTimeoutMs));
    const clock = atMs === null ? null : { name: sources.hubEndpoint, aheadMs: Date.now() - atMs };
    return { checks: [ok("hub", `${sources.hubEndpoint} answers`)], clock };
  } catch (error) {
    const fix = `name a mirror with HF_ENDPOINT or a proxy with HTTPS_PROXY; or ${otherWays}`;
    return { checks: [warn("hub", `${sources.hubEndpoint}: ${reasonOf(error)}`, fix)], clock: null };
  }
}

/** Models of package indexes are fetched by pip. */
async function pipCheck(config: Config, env: Variables): Promise<Check> {
  const pip = await modelSources(config, env).findPip();
  if (pip !== null) return ok("pip", pip);
  if (config.offline) return ok("pip", "not there, and not needed: offline");
  const fix = `install Python with pip and put it on the PATH; or ${otherWays}`;
  return warn("pip", "not on the PATH: no model can be fetched from a package index", fix);
}

/** Whether the default models that are missing would find room, and what is written every day. */
async function diskCheck(config: Config, env: Variables, missing: readonly ModelKind[]): Promise<Check> {
  const { bavail, bsize } = await statfs(await nearestExisting(config.data_dir));
  const freeBytes = bavail * bsize;
  const wanted = config.offline ? [] : modelSources(config, env).defaults.filter(({ kind }) => missing.includes(kind));
  const neededBytes = roomFactor * wanted.reduce((sum, { bytes }) => sum + bytes, 0);
  const detail = `${byteText(freeBytes)} free for ${config.data_dir}`;
  if (freeBytes >= neededBytes) {
    if (freeBytes >= freeBytesMin) return ok("disk", detail);
    return warn("disk", `${detail}, which usage and deliveries may fill`, "make room, or choose another --data-dir");
  }
  const names = wanted.map(({ id }) => id).join(" and ");
  return warn(
    "disk",
    `${detail}; ${names} take up to ${byteText(neededBytes)}`,
    "make room, or choose another --data-dir",
  );
}

async function nearestExisting(path: string): Promise<string> {
  const parent = dirname(path);
  const exists = (await stat(path).catch(() => null)) !== null;
  return exists || parent === path ? path : nearestExisting(parent);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
