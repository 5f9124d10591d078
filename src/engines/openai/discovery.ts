import type { Clock } from "../../domain/call/ports.js";
import { EngineError } from "../../domain/engine/engine.js";
import type { DiscoveredModel, MessagesFacts, UpstreamFacts, UpstreamKind } from "../../domain/engine/upstream.js";
import { kindOfHost } from "../../domain/engine/upstream-url.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { isObject } from "../../lib/json-string.js";
import { readWhole, type WholeAnswer } from "./connection/body-collector.js";
import { KeyRing, ModelKeys, type UpstreamKey } from "./connection/key-ring.js";
import { type Upstream, withKeys } from "./connection/upstream.js";
import { guessOperations, kindProfiles } from "./protocol/kinds.js";
import { countOf, engineErrorOf, InvalidResponse, parseJson } from "./protocol/upstream-failure.js";

/** Maximum bytes of a model list: hosted services list thousands of models. */
const listBytesMax = 8 * 1_024 * 1_024;
const modelsMax = 10_000;
const modelIdCharsMax = 256;

/** The models that the server lists. Rejects with EngineError. */
export async function discoverModels(
  upstream: Upstream,
  clock: Clock,
  signal: AbortFlag,
): Promise<readonly DiscoveredModel[]> {
  return readModels(await getModels(upstream, clock, signal), upstream.settings.kind);
}

/** Queries a server for its kind, version and models. Rejects with EngineError when it cannot be reached or does not list models. */
export async function checkUpstream(upstream: Upstream, clock: Clock, signal: AbortFlag): Promise<UpstreamFacts> {
  const startedAtMs = clock.monotonic();
  const answer = await getModels(upstream, clock, signal);
  const latencyMs = Math.round(clock.monotonic() - startedAtMs);
  const configured = upstream.settings.kind;
  const known = configured === "generic" ? kindOf(upstream.settings.url, answer) : configured;
  const { kind, stated } =
    known === null
      ? await kindByVersion(upstream, signal)
      : { kind: known, stated: await statedBy(upstream, known, signal) };
  const { version = null, slots = null } = stated ?? {};
  return { kind, version, slots, models: readModels(answer, kind ?? "generic"), latencyMs };
}

/** Whether the server can serve requests, determined by a request that does not generate. */
export async function isHealthy(upstream: Upstream, signal: AbortFlag): Promise<boolean> {
  const { healthPath } = upstream.profile;
  try {
    const { status } = await (healthPath === null
      ? list(upstream, upstream.keys.soonest, signal)
      : get(upstream, healthPath, signal));
    // A server without a list of models answers 404, which also shows that it runs.
    return status === 200 || (healthPath === null && status === 404);
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

/**
 * Requests the list of models; after a key that is rejected or limited, the next key is tried. The result says nothing about
 * generations: some keys may not list models, and providers do not count this request for their rate limits. So it neither
 * holds a key nor ends a hold.
 */
async function getModels(upstream: Upstream, clock: Clock, signal: AbortFlag): Promise<WholeAnswer> {
  const keys = new ModelKeys(clock, new KeyRing(upstream.settings.keys));
  return await withKeys(keys, "", async (key) => {
    const answer = await list(upstream, key, signal);
    if (answer.status === 200) return answer;
    const request = { promptParam: "", contextLength: null, keys: upstream.keys.texts, promptText: () => "" };
    throw engineErrorOf(answer, request, clock.now());
  });
}

async function list(upstream: Upstream, key: UpstreamKey, signal: AbortFlag): Promise<WholeAnswer> {
  const call = { operation: "models", model: "", body: null, key, requestId: null } as const;
  return await readWhole((reader) => upstream.send(call, reader), listBytesMax, signal).result;
}

async function get(upstream: Upstream, path: string, signal: AbortFlag): Promise<WholeAnswer> {
  const { soonest } = upstream.keys;
  return await readWhole((reader) => upstream.get(path, soonest, reader), listBytesMax, signal).result;
}

function readModels({ body }: WholeAnswer, kind: UpstreamKind): readonly DiscoveredModel[] {
  const parsed = parseJson(body);
  const entries: unknown = isObject(parsed) ? parsed["data"] : parsed;
  if (!Array.isArray(entries)) throw new InvalidResponse("the upstream's list of models is not one");
  const models: DiscoveredModel[] = [];
  for (const entry of entries.slice(0, modelsMax)) {
    const id: unknown = isObject(entry) ? entry["id"] : null;
    if (!isObject(entry) || typeof id !== "string" || id === "" || id.length > modelIdCharsMax) continue;
    const meta = isObject(entry["meta"]) ? entry["meta"] : {};
    const ofServer = countOf(entry["max_model_len"]) ?? countOf(meta["n_ctx"]) ?? countOf(entry["context_length"]);
    const length = ofServer ?? countOf(entry["max_input_tokens"]);
    const embeddingDims = countOf(meta["n_embd"]);
    models.push({
      id,
      contextLength: length === 0 ? null : length,
      embeddingDims,
      images: takesImages(entry["architecture"]) ?? isSupported(entry["capabilities"], "image_input"),
      operations: guessOperations(kind, id),
      ...(kind === "anthropic" ? { messages: messagesFacts(entry) } : {}),
    });
  }
  return models;
}

/** Whether a model takes images, by `input_modalities` of llama.cpp and OpenRouter; null: not stated. */
function takesImages(architecture: unknown): boolean | null {
  const modalities: unknown = isObject(architecture) ? architecture["input_modalities"] : null;
  return Array.isArray(modalities) ? modalities.includes("image") : null;
}

/** The properties of a model in Anthropic's list. */
function messagesFacts(entry: Readonly<Record<string, unknown>>): MessagesFacts {
  const { capabilities } = entry;
  const { thinking = null, effort = null } = isObject(capabilities) ? capabilities : {};
  const types: unknown = isObject(thinking) ? thinking["types"] : null;
  const canThink = isSupported(capabilities, "thinking");
  const ofType = isSupported(types, "adaptive") === true ? "effort" : "budget";
  const levels = isObject(effort) ? Object.keys(effort).filter((name) => isSupported(effort, name) === true) : [];
  return {
    maxOutput: countOf(entry["max_tokens"]) || null,
    thinking: canThink === null ? null : canThink ? ofType : "none",
    efforts: levels,
    jsonSchema: isSupported(capabilities, "structured_outputs"),
  };
}

/** Whether Anthropic's list names a capability as supported; null: it does not say. */
function isSupported(capabilities: unknown, name: string): boolean | null {
  const capability: unknown = isObject(capabilities) ? capabilities[name] : null;
  const supported: unknown = isObject(capability) ? capability["supported"] : null;
  return typeof supported === "boolean" ? supported : null;
}

const kindOfOwner: Readonly<Record<string, UpstreamKind>> = {
  vllm: "vllm",
  sglang: "sglang",
  llamacpp: "llama-server",
  library: "ollama",
  openai: "openai",
  system: "openai",
};

function kindOf(url: string, { headers, body }: WholeAnswer): UpstreamKind | null {
  const byHost = kindOfHost(url);
  if (byHost !== null) return byHost;
  if (headers["server"] === "llama.cpp") return "llama-server";
  const parsed = parseJson(body);
  const entries: unknown = isObject(parsed) ? parsed["data"] : null;
  const first: unknown = Array.isArray(entries) ? entries[0] : null;
  const owner = isObject(first) ? first["owned_by"] : null;
  if (typeof owner === "string" && Object.hasOwn(kindOfOwner, owner)) return kindOfOwner[owner] ?? null;
  // A service that imitates OpenAI, as this one does; its /version does not mean that it is vLLM.
  return headers["openai-version"] === undefined ? null : "generic";
}

/** Kinds of servers that state their version at a path of their kind; the most common path is the last. */
const kindsWithVersion = ["llama-server", "ollama", "sglang", "vllm"] as const;

/** Requests the versions of all kinds at the same time, because most servers have none of the paths. */
async function kindByVersion(
  upstream: Upstream,
  signal: AbortFlag,
): Promise<{ readonly kind: UpstreamKind | null; readonly stated: Stated | null }> {
  const all = await Promise.all(kindsWithVersion.map((kind) => statedBy(upstream, kind, signal)));
  const found = all.findIndex((stated) => stated !== null);
  return { kind: kindsWithVersion[found] ?? null, stated: all[found] ?? null };
}

const versionCharsMax = 100;

/** The version of a server and its number of slots. */
type Stated = Pick<UpstreamFacts, "slots"> & { readonly version: string };

/** Requests the version at the path of this kind; null: the server states none there. */
async function statedBy(upstream: Upstream, kind: UpstreamKind, signal: AbortFlag): Promise<Stated | null> {
  const { version } = kindProfiles[kind];
  if (version === null) return null;
  try {
    const { status, body } = await get(upstream, version.path, signal);
    const parsed = status === 200 ? parseJson(body) : null;
    const value = isObject(parsed) ? parsed[version.member] : null;
    if (!isObject(parsed) || typeof value !== "string") return null;
    const slots = version.slots === undefined ? null : countOf(parsed[version.slots]);
    return { version: value.replace(/[^\x20-\x7e]/g, "").slice(0, versionCharsMax), slots: slots === 0 ? null : slots };
  } catch (error) {
    if (error instanceof EngineError && error.code !== "aborted") return null;
    throw error;
  }
}
