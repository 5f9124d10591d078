/** Kinds, sources and states of upstreams as text. */
import type { UpstreamDeploymentJson, UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import { wholeNumber } from "../../lib/format.js";

/** Titles of the kinds of servers. With the empty kind, the service detects it. */
export const kindTitles: Readonly<Record<string, string>> = {
  "": "Detect",
  openai: "OpenAI",
  azure: "Azure OpenAI",
  anthropic: "Anthropic",
  vllm: "vLLM",
  sglang: "SGLang",
  "llama-server": "llama-server",
  ollama: "Ollama",
  ray: "Ray Serve",
  generic: "Other (OpenAI-compatible)",
};

export function kindTitle(kind = ""): string {
  return kindTitles[kind] ?? kind;
}

type StateTone = "good" | "bad" | "busy" | "plain";

const states: Readonly<Record<string, readonly [tone: StateTone, word: string]>> = {
  ready: ["good", "Ready"],
  loading: ["busy", "Loading"],
  ejected: ["bad", "Ejected"],
  cooling: ["busy", "Cooling down"],
  draining: ["plain", "Draining"],
};

export function stateOf({ state = "" }: UpstreamDeploymentJson): readonly [tone: StateTone, word: string] {
  return states[state] ?? ["plain", state === "" ? "Unknown" : state];
}

export function isStored({ source }: UpstreamJson): boolean {
  return source === "stored";
}

/** Where the upstream can be changed. */
export function sourceText(upstream: UpstreamJson): string {
  return isStored(upstream) ? "Added here" : "uis.yaml (read-only)";
}

const namesMax = 10;

/** Which models of the upstream are offered. */
export function modelsText({ models = [], discover = "0s" }: UpstreamJson): string {
  const more = models.length > namesMax ? ` and ${wholeNumber(models.length - namesMax)} more` : "";
  if (models.length > 0) return `${models.slice(0, namesMax).join(", ")}${more}`;
  return Number.parseFloat(discover) > 0
    ? `All models that it lists, read every ${discover}`
    : "Those named in uis.yaml";
}

/** The number of the upstream's API keys and, if known, the last characters. */
export function keyText({ keyCount = 0, keyHint = "" }: UpstreamJson): string {
  if (keyCount === 0) return "None";
  const ending = keyHint === "" ? "" : `, …${keyHint}`;
  return keyCount === 1 ? `1 key${ending}` : `${wholeNumber(keyCount)} keys${ending}`;
}

/** Deployments with a problem first, then by id. */
export function inOrder(deployments: readonly UpstreamDeploymentJson[]): readonly UpstreamDeploymentJson[] {
  const rank = ({ state }: UpstreamDeploymentJson): number => Number(state === "ready");
  return [...deployments].sort((a, b) => rank(a) - rank(b));
}
