import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { examineUpstream } from "../compose/upstream-check.js";
import { defineUpstream } from "../config/new-upstream.js";
import type { Service } from "../service/service.js";

/** An inference server on this machine that lists its models without a key. */
export interface LocalServer {
  /** Name of the program, for people. */
  readonly name: string;
  /** Base URL of its API. */
  readonly url: string;
}

/** Default ports of Ollama, LM Studio, vLLM and llama-server. */
const usualPorts: readonly number[] = [11_434, 1_234, 8_000, 8_080];

const answerMsMax = 300;

/** Searches this machine for servers other than this service, unless its configuration has upstreams. */
export async function findServersBeside({ config, addresses }: Service): Promise<readonly LocalServer[]> {
  if (Object.keys(config.upstreams).length > 0) return [];
  const own = [addresses.http, addresses.grpc, addresses.ops];
  return await findLocalServers(own.map((address) => Number(/:(\d+)$/.exec(address)?.[1])));
}

/** The servers that answer on these ports of 127.0.0.1 within 300 ms, except on ports of this service. */
export async function findLocalServers(
  ownPorts: readonly number[],
  ports: readonly number[] = usualPorts,
): Promise<readonly LocalServer[]> {
  const others = ports.filter((port) => !ownPorts.includes(port));
  const found = await Promise.all(others.map(localServerAt));
  return found.filter((server) => server !== null);
}

async function localServerAt(port: number): Promise<LocalServer | null> {
  const url = `http://127.0.0.1:${port}/v1`;
  const checked = await examineUpstream(defineUpstream({ url, kind: null, keyFile: null }), answerMsMax);
  return "facts" in checked ? { name: nameOf(checked.facts.kind, port), url } : null;
}

const names: Readonly<Partial<Record<UpstreamKind, string>>> = {
  ollama: "Ollama",
  vllm: "vLLM",
  sglang: "SGLang",
  "llama-server": "llama-server",
};

/** The program's name. LM Studio does not state a kind or version, and is recognized by its port. */
function nameOf(kind: UpstreamKind | null, port: number): string {
  const name = kind === null ? undefined : names[kind];
  return name ?? (port === 1_234 ? "LM Studio" : "a server with OpenAI's API");
}
