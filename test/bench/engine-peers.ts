import { LlamaServer } from "../support/upstream/llama-server.js";
import { prompt, rounded } from "./engine-measures.js";
import { EngineService } from "./engine-service.js";
import { median } from "./http-request.js";
import { cpuMs } from "./process-figures.js";

const threads = 1;
const slots = 4;
const prefillTokens = 1_000;
const prefillRequests = 2;
const inputsPerRound = 32;
const wordsPerInput = 24;
const words = "the of and to in is it you that he was for on are with as his they at be this from have or by one".split(
  " ",
);

/** Both sides run the same work in turn: medians of tokens or inputs per second, and of the ratio of each pair of rounds. */
export interface PeerFigures {
  readonly work: string;
  readonly service_per_second: number;
  readonly llama_server_per_second: number;
  readonly service_over_llama_server: number;
  /** Ratio of tokens or inputs per second of processor time, which other load of the machine affects less. */
  readonly per_cpu_second_over_llama_server: number;
  readonly aim: number;
}

interface Endpoint {
  readonly url: string;
  readonly key?: string;
  cpuMs(): number;
}

/** Tokens or inputs of one round, per second and per second of processor time. */
interface Speed {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

interface Work {
  readonly name: string;
  readonly aim: number;
  /** Tokens or inputs of one round. */
  readonly units: number;
  /** Requests of one round, sent one after the other: path and body. */
  readonly requests: () => readonly (readonly [path: string, body: object])[];
}

/** Evaluation of long prompts, none of which shares a prefix with another. */
const prefill: Work = {
  name: `prefill of ${prefillTokens} tokens, tokens per second`,
  aim: 0.9,
  units: prefillRequests * prefillTokens,
  requests: () =>
    Array.from({ length: prefillRequests }, () => [
      "/completions",
      { model: "m", prompt: prompt(prefillTokens), max_tokens: 1, cache_prompt: false },
    ]),
};

function embeddings(inputsPerRequest: number): Work {
  return {
    name: `embeddings with ${inputsPerRequest} inputs per request, inputs per second`,
    aim: 0.8,
    units: inputsPerRound,
    requests: () =>
      Array.from({ length: inputsPerRound / inputsPerRequest }, () => [
        "/embeddings",
        { model: "m", input: Array.from({ length: inputsPerRequest }, newInput) },
      ]),
  };
}

let drawn = 0;

function newInput(): string {
  drawn += 1;
  return Array.from({ length: wordsPerInput }, (_, at) => words[(drawn * 31 + at * at + at) % words.length]).join(" ");
}

/** Compares the service with llama.cpp's own server, both over HTTP, with the same model file, slots and threads. */
export async function measurePeers(
  { file, kind }: { readonly file: string; readonly kind: "chat" | "embedding" },
  repeats: number,
): Promise<readonly PeerFigures[]> {
  const embedding = kind === "embedding";
  const contextLength = embedding ? 512 : 2_048;
  const service = await EngineService.start([{ id: "m", file, slots, contextLength }]);
  try {
    const peer = await LlamaServer.start({ file, embedding, threads, slots, contextLength });
    const endpoint = { url: peer.url, cpuMs: () => cpuMs(peer.pid) };
    try {
      const figures: PeerFigures[] = [];
      for (const work of embedding ? [embeddings(1), embeddings(16)] : [prefill]) {
        figures.push(await compare(work, service.endpoint, endpoint, repeats));
      }
      return figures;
    } finally {
      await peer.stop();
    }
  } finally {
    await service.stop();
  }
}

async function compare(work: Work, service: Endpoint, peer: Endpoint, repeats: number): Promise<PeerFigures> {
  // The first round of each warms up.
  for (const side of [service, peer]) await run(work, side);
  const ours: Speed[] = [];
  const theirs: Speed[] = [];
  for (let i = 0; i < repeats; i += 1) {
    const sides = [() => run(work, service).then((speed) => ours.push(speed))];
    sides.push(() => run(work, peer).then((speed) => theirs.push(speed)));
    for (const side of i % 2 === 0 ? sides : sides.toReversed()) await side();
  }
  const ratio = (figure: keyof Speed): number =>
    rounded(median(ours.map((speed, i) => speed[figure] / (theirs[i]?.[figure] ?? 0))), 3);
  return {
    work: work.name,
    service_per_second: rounded(median(ours.map(({ perSecond }) => perSecond))),
    llama_server_per_second: rounded(median(theirs.map(({ perSecond }) => perSecond))),
    service_over_llama_server: ratio("perSecond"),
    per_cpu_second_over_llama_server: ratio("perCpuSecond"),
    aim: work.aim,
  };
}

async function run({ units, requests }: Work, { url, key = "", cpuMs }: Endpoint): Promise<Speed> {
  const all = requests();
  const cpuBefore = cpuMs();
  const startedMs = performance.now();
  for (const [path, body] of all) {
    const response = await fetch(url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${url}${path} answered ${response.status}: ${text.slice(0, 500)}`);
  }
  const perSecond = (units * 1_000) / (performance.now() - startedMs);
  return { perSecond, perCpuSecond: (units * 1_000) / (cpuMs() - cpuBefore) };
}
