import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { configSchema } from "../../src/app/config/schema.js";
import { callRpc, httpRequest } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";
import { childPids, cpuMs, rssBytes } from "./process-figures.js";

/** Workers with one Redis, under measurement. */
export interface ScaledService {
  /** One port with `server.workers`; otherwise the port of each process. */
  readonly ports: readonly number[];
  readonly workers: number;
  /** Processor time of all workers together. */
  cpuMs(): number;
  rssBytes(): number;
  /** Calls an RPC as administrator, such as `unified.admin.v1.ApiKeyService/CreateApiKey`. */
  rpc(method: string, request: object): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

/** Cores of the machine. The client has the last one; with four or more, Redis has the one before. */
export const cores = cpus().length;
export const clientCore = cores - 1;
export const redisCore = cores >= 4 ? cores - 2 : clientCore;
/** All rows with the same choice use the same cores, so that the client has the same share of the machine in each. */
const coresOf = { own: redisCore === 1 ? "0" : `0-${redisCore - 1}`, all: `0-${cores - 1}`, first: "0" } as const;

export const apiKey = "key-of-the-measurement";
export const tokensOfStream = 200;
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
const scripted = { engine: "scripted", slots: 16_384 };
const models = [
  { id: "chat", ...scripted, scripted: { text: "one two three four five" } },
  { id: "long", ...scripted, scripted: { text: "one two three four five", context_length: 1_000_000 } },
  { id: "other", ...scripted, scripted: { text: "one two three four five" } },
  { id: "stream", ...scripted, scripted: { text: "one two three four five", tokens: tokensOfStream } },
  { id: "held", ...scripted, scripted: { text: "one two three four five", hang_after_tokens: 1 } },
];
const unreached = { requests_per_minute: 100_000_000, tokens_per_minute: 1_000_000_000_000 };

/** Whether this version has the setting `server.workers`. */
export const hasWorkers = configSchema.safeParse({
  server: { workers: 2 },
  state: { redis_url: "redis://127.0.0.1" },
  models,
}).success;

export interface ScaleOptions {
  readonly workers: number;
  /** Folder for all services of the run. */
  readonly folder: string;
  readonly redisPort: number;
  /** Cores of the workers: all but those of the client and of Redis (`own`, the default), all of the machine, or the first. */
  readonly on?: "own" | "all" | "first";
}

interface OnRedis {
  /** Name of the service's own folder in `folder`. */
  readonly name: string;
  readonly folder: string;
  readonly redisPort: number;
  /** One core or several, such as `0-2`. */
  readonly core: number | string;
  /** Settings of the configuration, without limits. */
  readonly settings: object;
}

/** Starts the build in `dist` on a Redis, with limits that are never reached and the key `apiKey`. */
export async function startOnRedis({ name, folder, redisPort, core, settings }: OnRedis): Promise<PinnedProcess> {
  const own = join(folder, name);
  mkdirSync(own, { recursive: true });
  const config = join(own, "uis.yaml");
  // JSON is YAML.
  writeFileSync(config, JSON.stringify({ ...settings, rate_limits: { default_key: unreached } }));
  const env = {
    ...process.env,
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
    UIS_MASTER_KEY: Buffer.alloc(32).toString("base64"),
    UIS_BOOTSTRAP_API_KEY: apiKey,
    UIS_DATA_DIR: join(own, "data"),
    UIS_OFFLINE: "1",
    LOG_LEVEL: "warn",
  };
  return await startPinned(core, ["dist/app/cli.js", "serve", "--json", "--config", config, ...ports], env);
}

/** The port of a service's HTTP listener. */
export const portOf = ({ ready }: PinnedProcess): number => Number(new URL(String(ready["api"])).port);

/** Starts workers. */
export async function startScaled(options: ScaleOptions): Promise<ScaledService> {
  const { workers, folder, redisPort, on = "own" } = options;
  const startOne = (name: string, server: object): Promise<PinnedProcess> =>
    startOnRedis({
      name: `${name}-${on}`,
      folder,
      redisPort,
      core: coresOf[on],
      settings: { server, models },
    });
  const started = hasWorkers
    ? [await startOne(`workers-${workers}`, { workers })]
    : await Promise.all(Array.from({ length: workers }, (_, at) => startOne(`process-${workers}-${at}`, {})));
  const [first] = started;
  if (first === undefined) throw new Error("a service has at least one worker");
  const url = String(first.ready["api"]);
  const token = readFileSync(join(String(first.ready["data_dir"]), "admin.token"), "utf8").trim();
  const sum = (of: (pid: number) => number): number => {
    const pids = started.flatMap(({ pid }) => [pid, ...childPids(pid)]);
    return pids.reduce((total, pid) => total + of(pid), 0);
  };
  return {
    workers,
    ports: started.map(portOf),
    cpuMs: () => sum(cpuMs),
    rssBytes: () => sum(rssBytes),
    rpc: (method, request) => callRpc(url, token, method, request),
    async stop() {
      await Promise.all(started.map((one) => one.stop()));
    },
  };
}

/** Characters of the prompt for the model `long`: to read it is most of the processor time of its request. */
export const longPrompt = 300_000;

/** A chat for one of the models. */
export function chatOf(model: "chat" | "long" | "other" | "stream" | "held", key = apiKey): Buffer {
  const question = "Say the five words. ";
  const content = model === "long" ? question.repeat(longPrompt / question.length) : question;
  const messages = [{ role: "user", content }];
  const isStreamed = model === "stream" || model === "held";
  return httpRequest("/v1/chat/completions", key, { model, messages, max_tokens: tokensOfStream, stream: isStreamed });
}
