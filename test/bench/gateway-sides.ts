import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Target, workModels, works } from "./gateway-works.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";

/** A gateway under measurement. */
export interface Side extends Target {
  readonly process: PinnedProcess;
}

export type StateName = "memory" | "file" | "redis";

const key = "key-of-the-measurement";
const program = "dist/app/cli.js";
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
/** More than the connections of any measurement. */
const slots = 4_096;

/** The measured service's models, each one deployment of the mock upstream. */
export function gatewaySettings(upstreamPort: number): object {
  const deployment = { engine: "openai", upstream: "mock", slots };
  return {
    upstreams: { mock: { url: `http://127.0.0.1:${upstreamPort}/v1` } },
    models: workModels.map((model) => {
      const capabilities = model === works.embeddings_base64.body.model ? ["embeddings"] : ["chat"];
      return { id: model, deployments: [{ ...deployment, model, capabilities }] };
    }),
  };
}

export interface ServiceOptions {
  readonly state: StateName;
  /** A folder for all services of the run. */
  readonly folder: string;
  readonly redisPort: number | null;
}

/** Starts the build in `dist` on one core, with rate limits that are never reached. */
export async function startService(
  { state, folder, redisPort }: ServiceOptions,
  settings: object,
  core: number,
): Promise<Side> {
  const ownFolder = join(folder, state);
  mkdirSync(ownFolder);
  const config = join(ownFolder, "uis.yaml");
  const unreached = { requests_per_minute: 100_000_000, tokens_per_minute: 1_000_000_000 };
  const stateSettings = state === "memory" ? { state: { durability: "none" } } : {};
  writeFileSync(config, JSON.stringify({ ...settings, ...stateSettings, rate_limits: { default_key: unreached } }));
  const { REDIS_URL: _, ...environment } = process.env;
  const env = {
    ...environment,
    UIS_DATA_DIR: join(ownFolder, "data"),
    UIS_BOOTSTRAP_API_KEY: key,
    UIS_OFFLINE: "1",
    ...(state === "redis"
      ? { REDIS_URL: `redis://127.0.0.1:${redisPort}`, UIS_MASTER_KEY: Buffer.alloc(32).toString("base64") }
      : {}),
  };
  const service = await startPinned(core, [program, "serve", "--json", "--config", config, ...ports], env);
  return { process: service, port: Number(new URL(String(service.ready["api"])).port), key };
}

export async function startPassThrough(upstreamPort: number, core: number): Promise<Side> {
  const args = ["--import", "tsx", join(import.meta.dirname, "pass-through.ts"), `http://127.0.0.1:${upstreamPort}`];
  const started = await startPinned(core, args, process.env);
  return { process: started, port: Number(started.ready["port"]), key: "none" };
}
