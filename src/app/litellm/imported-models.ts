import { modelIdForm, modelIdWords } from "../../contract/names.js";
import type { DeploymentOperation } from "../../domain/engine/upstream.js";
import { fallbacksMax } from "../config/model-settings.js";
import { type ImportedUpstreams, upstreamParams } from "./imported-upstreams.js";
import { infoReasonOf, type Note, reasonOf } from "./notes.js";
import { findProvider } from "./providers.js";
import { type Group, groupOf, numberOf, textOf, toLiteral } from "./values.js";

/** Prices in nano-dollars per token. */
interface Prices {
  input?: number;
  cached_input?: number;
  output?: number;
}

/** An entry of `deployments:` as it is printed. */
interface DeploymentEntry {
  engine: "openai";
  upstream: string;
  model: string;
  id?: string;
  slots?: number;
  weight?: number;
  priority?: number;
  prices?: Prices;
  capabilities?: string[];
}

/** An entry of `models:` as it is printed. */
export interface ModelEntry {
  id: string;
  prices?: Prices;
  fallbacks?: string[];
  defaults?: Readonly<Record<string, number>>;
  deployments: DeploymentEntry[];
}

/** LiteLLM settings that determine which share of a model's requests a deployment gets. */
interface Shares {
  readonly weight: number | null;
  readonly order: number | null;
  readonly rpm: number | null;
  readonly tpm: number | null;
}

interface ImportedModel {
  readonly entry: ModelEntry;
  readonly shares: Shares[];
  /** Request options of each deployment that can be defaults of a model. */
  readonly defaults: Readonly<Record<string, number>>[];
}

/** The largest value of settings that are defaults of a model here. */
const defaultParams: Readonly<Record<string, number>> = { temperature: 2, top_p: 1, max_tokens: 2_147_483_647 };

const ownParams = [
  "model",
  "custom_llm_provider",
  "litellm_credential_name",
  "max_parallel_requests",
  "weight",
  "order",
];
const priceParams = ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost"];
const ownInfo = ["id", "mode", ...priceParams];

/** Modes of `model_info` by the operation that they are. */
const modes: ReadonlyMap<string, DeploymentOperation> = new Map([
  ["completion", "completions"],
  ["embedding", "embeddings"],
  ["rerank", "rerank"],
]);
/** Modes for which the operations are discovered from the upstream. */
const chatModes = ["chat", "responses"];

/** The models of an import. Entries with the same model_name are deployments of one model. */
export class ImportedModels {
  readonly #models = new Map<string, ImportedModel>();
  readonly #ids = new Set<string>();
  readonly #upstreams: ImportedUpstreams;
  readonly #note: (note: Note) => void;
  /** Whether an entry stands for all models of an upstream. */
  discovers = false;

  constructor(upstreams: ImportedUpstreams, note: (note: Note) => void) {
    this.#upstreams = upstreams;
    this.#note = note;
  }

  /** One entry of model_list; `credentials` are the values of credential_list by name. */
  add(at: string, listed: Group, credentials: ReadonlyMap<string, Group>): void {
    const own = groupOf(listed["litellm_params"]);
    const params = { ...credentials.get(String(own["litellm_credential_name"])), ...own };
    const id = textOf(listed["model_name"]) ?? "";
    const why = this.#add(at, id, params, groupOf(listed["model_info"]));
    if (why !== null) this.#note({ sort: "left out", what: `${at} (${id})`, why, of: null });
  }

  /** Returns why the entry is left out; null if it was added. */
  #add(at: string, id: string, params: Group, info: Group): string | null {
    const mode = textOf(info["mode"]) ?? "chat";
    if (!chatModes.includes(mode) && !modes.has(mode)) {
      return `its mode ${mode} is not served: only chat, completions, embeddings and reranking are`;
    }
    const hasBase = textOf(params["api_base"] ?? params["base_url"]) !== null;
    const found = findProvider(textOf(params["model"]) ?? id, textOf(params["custom_llm_provider"]), hasBase);
    if ("reason" in found) return found.reason;
    if (numberOf(params["weight"]) === 0) return "its weight is 0, so it takes no requests";
    const isPattern = id.includes("*") || found.model.includes("*");
    if (!isPattern && !modelIdForm.test(id)) return `a model id must be ${modelIdWords}`;
    if (!isPattern && !/^[\x21-\x7e]{1,256}$/.test(found.model)) return "the name of its model is missing or not ASCII";
    const upstream = this.#upstreams.add(found.name, found.provider, params);
    if ("reason" in upstream) return upstream.reason;
    const deployment = { engine: "openai", upstream: upstream.name, model: toLiteral(found.model) } as const;
    if (isPattern) this.#discover(at, id, upstream.name);
    else this.#addDeployment(id, deployment, params, info);
    return null;
  }

  #discover(at: string, id: string, upstream: string): void {
    this.discovers = true;
    this.#upstreams.discover(upstream);
    const prefix = id.includes("/") ? `, without ${id.slice(0, id.indexOf("/") + 1)}` : "";
    const why = `all models of this upstream are discovered; clients use its own names${prefix}`;
    this.#note({ sort: "changed", what: `${at} (${id})`, why, of: { list: "upstreams", name: upstream } });
  }

  #addDeployment(id: string, deployment: DeploymentEntry, params: Group, info: Group): void {
    const model = this.#models.get(id) ?? { entry: { id, deployments: [] }, shares: [], defaults: [] };
    this.#models.set(id, model);
    const { entry, shares } = model;
    const note = (sort: Note["sort"], what: string, why: string) =>
      this.#note({ sort, what, why, of: { list: "models", name: id } });
    entry.deployments.push(deployment);
    shares.push({
      weight: positive(params["weight"]),
      order: numberOf(params["order"]),
      rpm: positive(params["rpm"]),
      tpm: positive(params["tpm"]),
    });
    const defaults = defaultsOf(params);
    model.defaults.push(defaults);
    this.#takeId(deployment, info["id"], note);
    const operation = modes.get(textOf(info["mode"]) ?? "chat");
    if (operation !== undefined) deployment.capabilities = [operation];
    const slots = numberOf(params["max_parallel_requests"]);
    if (slots !== null) deployment.slots = Math.min(65_536, Math.max(1, Math.round(slots)));
    const prices = pricesOf({ ...info, ...params }, note);
    if (prices !== null) deployment.prices = prices;
    const taken = [...ownParams, ...upstreamParams, ...priceParams, ...Object.keys(defaults)];
    for (const name of Object.keys(params)) {
      if (!taken.includes(name)) note("left out", name, reasonOf(name));
    }
    for (const name of Object.keys(info)) {
      if (!ownInfo.includes(name)) note("left out", `model_info.${name}`, infoReasonOf(name));
    }
  }

  #takeId(
    deployment: DeploymentEntry,
    value: unknown,
    note: (sort: Note["sort"], what: string, why: string) => void,
  ): void {
    if (value === undefined || value === null) return;
    const id = String(value);
    if (!/^[\x21-\x7e]{1,320}$/.test(id)) note("left out", "model_info.id", "must be printable ASCII without spaces");
    else if (this.#ids.has(id)) note("left out", "model_info.id", "is the id of another deployment");
    else deployment.id = toLiteral(id);
    this.#ids.add(id);
  }

  has(id: string): boolean {
    return this.#models.has(id);
  }

  ids(): readonly string[] {
    return [...this.#models.keys()];
  }

  /** Adds a further name of a model. */
  addAlias(alias: string, of: string): void {
    const model = this.#models.get(of);
    if (model === undefined) return;
    const deployments = model.entry.deployments.map(({ id: _, ...deployment }) => deployment);
    this.#models.set(alias, {
      ...model,
      entry: { ...model.entry, id: alias, deployments },
      defaults: [sharedDefaults(model.defaults)],
    });
  }

  /** Adds a fallback. Returns false if the model already has the maximum number. */
  addFallback(id: string, fallback: string): boolean {
    const entry = this.#models.get(id)?.entry;
    if (entry === undefined || id === fallback || entry.fallbacks?.includes(fallback)) return true;
    if (entry.fallbacks?.length === fallbacksMax) return false;
    entry.fallbacks = [...(entry.fallbacks ?? []), fallback];
    return true;
  }

  finish(): readonly ModelEntry[] {
    return [...this.#models.values()].map(({ entry, shares, defaults }) => {
      const shared = withSharedPrices(withShares(entry, shares));
      const own = sharedDefaults(defaults);
      for (const name of new Set(defaults.flatMap((each) => Object.keys(each)))) {
        if (own[name] !== undefined) continue;
        this.#note({ sort: "left out", what: name, why: reasonOf(name), of: { list: "models", name: entry.id } });
      }
      const { deployments, ...model } = shared;
      return Object.keys(own).length === 0 ? shared : { ...model, defaults: own, deployments };
    });
  }
}

function defaultsOf(params: Group): Readonly<Record<string, number>> {
  const defaults = Object.entries(defaultParams).flatMap(([name, max]) => {
    const value = numberOf(params[name]);
    if (value === null || value < 0 || value > max) return [];
    return name === "max_tokens" && (value < 1 || !Number.isInteger(value)) ? [] : [[name, value] as const];
  });
  return Object.fromEntries(defaults);
}

/** Defaults that all deployments of a model have with the same value. */
function sharedDefaults(all: ImportedModel["defaults"]): Readonly<Record<string, number>> {
  const [first = {}] = all;
  return Object.fromEntries(
    Object.entries(first).filter(([name, value]) => all.every((defaults) => defaults[name] === value)),
  );
}

function positive(value: unknown): number | null {
  const number = numberOf(value);
  return number !== null && number > 0 ? number : null;
}

function withShares(entry: ModelEntry, shares: readonly Shares[]): ModelEntry {
  const weights = weightsOf(shares);
  const orders = shares.map(({ order }) => order);
  const set = orders.filter((order) => order !== null);
  const steps = [...new Set(set)].sort((a, b) => a - b);
  const deployments = entry.deployments.map((deployment, i): DeploymentEntry => {
    const weight = weights[i] ?? 1;
    const order = orders[i] ?? null;
    // An entry without an order comes after those with one.
    const priority = order === null ? steps.length : steps.indexOf(order);
    return { ...deployment, ...(weight === 1 ? {} : { weight }), ...(priority === 0 ? {} : { priority }) };
  });
  return { ...entry, deployments };
}

const weightMax = 1_000;

/** Whole shares from 1 to 1000: of the weights, else of the limits in requests or tokens if all have one. */
function weightsOf(shares: readonly Shares[]): readonly number[] {
  const given = (["weight", "rpm", "tpm"] as const)
    .map((name) => shares.map((share) => share[name]))
    .find((values, i) => (i === 0 ? values.some((value) => value !== null) : values.every((value) => value !== null)));
  if (given === undefined) return shares.map(() => 1);
  const values = given.map((value) => value ?? 1);
  const digits = values.every((value) => Number.isInteger(value)) ? 1 : 1_000;
  const whole = values.map((value) => Math.max(1, Math.round(value * digits)));
  const divisor = whole.reduce(greatestDivisor);
  const reduced = whole.map((value) => value / divisor);
  const scale = Math.max(1, Math.max(...reduced) / weightMax);
  return reduced.map((value) => Math.max(1, Math.round(value / scale)));
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

const priceMax = 10_000_000;

/** Converts prices in dollars per token to nano-dollars; null if no price is set. */
function pricesOf(settings: Group, note: (sort: Note["sort"], what: string, why: string) => void): Prices | null {
  const names = {
    input: "input_cost_per_token",
    cached_input: "cache_read_input_token_cost",
    output: "output_cost_per_token",
  };
  const prices: Prices = {};
  for (const [name, param] of Object.entries(names)) {
    const dollars = numberOf(settings[param]);
    if (dollars === null) continue;
    const exact = dollars * 1e9;
    const nano = Math.round(exact);
    if (nano < 0 || nano > priceMax) {
      note("left out", param, "must be 0 to 0.01 dollars per token");
      continue;
    }
    if (Math.abs(exact - nano) > 1e-6) note("changed", param, "is rounded to whole nano-dollars per token");
    prices[name as keyof Prices] = nano;
  }
  return Object.keys(prices).length === 0 ? null : prices;
}

/** Moves prices that all deployments share to the model. */
function withSharedPrices(entry: ModelEntry): ModelEntry {
  const texts = new Set(entry.deployments.map(({ prices }) => JSON.stringify(prices ?? null)));
  const [prices] = entry.deployments.map((deployment) => deployment.prices);
  if (texts.size !== 1 || prices === undefined) return entry;
  const { id, deployments, ...rest } = entry;
  return { id, prices, ...rest, deployments: deployments.map(({ prices: _, ...deployment }) => deployment) };
}
