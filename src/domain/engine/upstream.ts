import type { Secret } from "../../lib/secret.js";

/** Dialects of upstream servers; `generic` is OpenAI's API without known peculiarities. */
export const upstreamKinds = [
  "openai",
  "azure",
  "vllm",
  "sglang",
  "llama-server",
  "ollama",
  "ray",
  "anthropic",
  "generic",
] as const;

export type UpstreamKind = (typeof upstreamKinds)[number];

/** API families whose requests an upstream can receive without a translation. */
export const nativeApis = ["responses", "messages"] as const;

export type NativeApi = (typeof nativeApis)[number];

/** Kinds of servers that may have one of `nativeApis`. */
export const kindsWithNativeApis: readonly UpstreamKind[] = ["openai", "anthropic", "vllm", "llama-server", "generic"];

/** Operations that a deployment can offer. */
export const deploymentOperations = ["chat", "completions", "embeddings", "rerank"] as const;

export type DeploymentOperation = (typeof deploymentOperations)[number];

/**
 * Abilities of a deployment in addition to its operations. A request that needs one which a deployment lacks goes to
 * another.
 */
export const deploymentAbilities = [
  "tools",
  "tool_choice",
  "json_object",
  "json_schema",
  "logprobs",
  "n",
  "vision",
  "audio",
  "reasoning",
] as const;

export type DeploymentAbility = (typeof deploymentAbilities)[number];

/** How an attempt at an upstream ended. `success` includes answers that reject the request for a fault of the caller. */
export type UpstreamOutcome =
  | "success"
  | "cancelled"
  | "upstream_error"
  | "timeout"
  | "rate_limited"
  | "unauthorized"
  | "invalid_response";

/**
 * Called once per attempt, for metrics. `deployment` is its id. `firstByteMs` is the time from the request to the first
 * byte of the answer's body; null: none came.
 */
export type UpstreamObserver = (
  attempt: { readonly deployment: string; readonly upstream: string },
  outcome: UpstreamOutcome,
  firstByteMs: number | null,
) => void;

/** How requests with equal beginnings find the same deployment: by prompt prefix, by session, or not at all. */
export const affinities = ["prefix", "session", "none"] as const;

export type Affinity = (typeof affinities)[number];

/**
 * A server that runs models, with all settings resolved. Two definitions are deeply equal exactly if their settings are the
 * same.
 */
export interface UpstreamDefinition {
  /** Printable ASCII without a slash: the first part of its deployments' ids. */
  readonly name: string;
  readonly kind: UpstreamKind;
  /** Base URL without a slash at its end; for Azure, the URL of the resource. */
  readonly url: string;
  /** Azure: version of the API whose paths name a deployment; null: the API below `/openai/v1`. */
  readonly apiVersion: string | null;
  /** API keys without duplicates; empty: requests have no credential. */
  readonly keys: readonly Secret[];
  /** Further request headers by lower-case name. */
  readonly headers: Readonly<Record<string, Secret>>;
  /** Interval at which its list of models is read; null: never. */
  readonly discoverMs: number | null;
  readonly connectMs: number;
  readonly firstByteMs: number;
  /** Maximum pause between two parts of an answer. */
  readonly idleMs: number;
  /** Maximum duration of a call; never above the limit `deadlineMs`. */
  readonly totalMs: number;
  readonly tls: UpstreamTls;
  readonly native: readonly NativeApi[];
}

/** Contents of PEM files; null where there is none. */
export interface UpstreamTls {
  /** Null: the system's CAs. */
  readonly ca: string | null;
  /** Client certificate, with its key. */
  readonly cert: string | null;
  readonly key: Secret | null;
  /** Name in the certificate of the server; null: the host of the URL. */
  readonly serverName: string | null;
}

/** Engine options of a deployment at an upstream. */
export interface UpstreamModel {
  readonly upstream: UpstreamDefinition;
  /** Name at the upstream. */
  readonly model: string;
  /** Names of further request fields that are sent to the upstream. */
  readonly passThrough: readonly string[];
  /** Tokens of prompt and answer together; null: as discovered, else unknown. */
  readonly contextLength: number | null;
  /** All capabilities that the deployment offers. Null: as discovered. */
  readonly capabilities: UpstreamCapabilities | null;
  /** Facts about the model from the upstream's list of models. Absent: the engine reads the list when it loads the model. */
  readonly listed?: ListedFacts;
}

/** Facts about a model from a server's list of models; null where the list does not state them. */
export interface ListedFacts {
  /** Tokens of prompt and answer together. */
  readonly contextLength: number | null;
  readonly embeddingDims: number | null;
  /** Whether the model takes images; null: the server does not say. */
  readonly images: boolean | null;
  /** Further facts from Anthropic's list. Absent for a list of another API. */
  readonly messages?: MessagesFacts;
}

/** Facts about a model of Anthropic's Messages API; null where the list does not state them. */
export interface MessagesFacts {
  /** Largest `max_tokens`. */
  readonly maxOutput: number | null;
  /** Whether the amount of thinking is requested as a budget of tokens or as an effort. */
  readonly thinking: "none" | "budget" | "effort" | null;
  /** Names of the levels of effort; empty where there are none. */
  readonly efforts: readonly string[];
  /** Whether answers and calls can be bound to a JSON schema. */
  readonly jsonSchema: boolean | null;
}

/** A model that a server lists. */
export interface DiscoveredModel extends ListedFacts {
  /** Id on the server. */
  readonly id: string;
  /** Operations, derived from the kind of the server and the id of the model. */
  readonly operations: readonly DeploymentOperation[];
}

/**
 * Facts about a server, for display to an operator. They contain nothing of its answers except ids, numbers and a version.
 */
export interface UpstreamFacts {
  /**
   * The configured kind; for `generic`, the kind recognized by address, headers, model list and version. Null: not
   * recognized.
   */
  readonly kind: UpstreamKind | null;
  readonly version: string | null;
  /** Requests that it runs at the same time; null: it does not say. */
  readonly slots: number | null;
  readonly models: readonly DiscoveredModel[];
  /** Duration of the request for the list of models. */
  readonly latencyMs: number;
}

/** Facts about an upstream, or why there are none and what to do. Neither contains text of the server's answers. */
export type UpstreamCheck = { readonly facts: UpstreamFacts } | { readonly problem: string; readonly fix: string };

export interface UpstreamCapabilities {
  /** At least one. */
  readonly operations: readonly DeploymentOperation[];
  readonly abilities: readonly DeploymentAbility[];
}
