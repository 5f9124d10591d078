import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { callRpc, httpRequest } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";

/** `file`: an SQLite file, as with `npm start`; `memory`: `state.durability: none`. */
export const stateNames = ["file", "memory"] as const;
export type StateName = (typeof stateNames)[number];

/** One line of the table. */
export interface Line {
  readonly what: string;
  readonly state: StateName;
  readonly measured: string;
  readonly aim: string;
  readonly isHeld: boolean;
}

export interface GrowthService {
  readonly process: PinnedProcess;
  readonly port: number;
  readonly dataDir: string;
  /** Processor time until it was ready. */
  readonly startCpuMs: number;
  /** Calls an RPC as administrator, such as `unified.admin.v1.ApiKeyService/CreateApiKey`. */
  rpc(method: string, request: object): Promise<Record<string, unknown>>;
}

const serviceCore = 0;
/** The first API key of each service. */
export const apiKey = "key-of-the-measurement";
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
/** More than the connections of any measurement, so that no request waits for a slot. */
const slots = 16_384;

/** A scripted model that takes no time; `scripted` as in the configuration. */
export function scriptedModel(id: string, scripted: object = { text: "one two three four five" }): object {
  return { id, engine: "scripted", slots, context_length: 50_000_000, scripted };
}

export interface ServiceOptions {
  readonly name: string;
  readonly state: StateName;
  /** Folder for all services of the run. */
  readonly folder: string;
  /** Settings in addition to those of the state. Default: one model, `chat`. */
  readonly settings?: object;
  /** Writes files into the data folder before the start. */
  readonly prepare?: (dataDir: string) => void;
}

/** Starts the build in `dist` on one core, with a data folder of its own. */
export async function startService(options: ServiceOptions): Promise<GrowthService> {
  const { name, state, settings = {}, prepare } = options;
  const folder = join(options.folder, `${name}-${state}`);
  const dataDir = join(folder, "data");
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  prepare?.(dataDir);
  const config = join(folder, "uis.yaml");
  // JSON is YAML.
  const stateSettings = state === "memory" ? { durability: "none" } : {};
  writeFileSync(config, JSON.stringify({ state: stateSettings, models: [scriptedModel("chat")], ...settings }));
  const { REDIS_URL: _, ...environment } = process.env;
  const own = { UIS_DATA_DIR: dataDir, UIS_BOOTSTRAP_API_KEY: apiKey, UIS_OFFLINE: "1" };
  const args = ["dist/app/cli.js", "serve", "--json", "--config", config, ...ports];
  const service = await startPinned(serviceCore, args, { LOG_LEVEL: "warn", ...environment, ...own });
  const startCpuMs = service.cpuMs();
  const url = String(service.ready["api"]);
  const token = readFileSync(join(String(service.ready["data_dir"]), "admin.token"), "utf8").trim();
  return {
    process: service,
    port: Number(new URL(url).port),
    dataDir,
    startCpuMs,
    rpc: (method, request) => callRpc(url, token, method, request),
  };
}

/** A chat request with an answer of five tokens; `changes` replaces fields of its body. */
export function chatRequest(changes: object = {}, key = apiKey): Buffer {
  const messages = [{ role: "user", content: "Say the five words." }];
  return httpRequest("/v1/chat/completions", key, { model: "chat", messages, ...changes });
}

/** Runs a measurement with services, and stops them afterwards. */
export async function withServices<T>(
  started: readonly Promise<GrowthService>[],
  measure: (services: readonly GrowthService[]) => Promise<T>,
): Promise<T> {
  const settled = await Promise.allSettled(started);
  const services = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  try {
    for (const each of settled) if (each.status === "rejected") throw each.reason;
    return await measure(services);
  } finally {
    await Promise.all(services.map((service) => service.process.stop()));
  }
}
