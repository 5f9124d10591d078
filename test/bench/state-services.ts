import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { killAtExit } from "./cleanup.js";
import type { StreamRequest } from "./first-tokens.js";
import { httpRequest } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";

/** A service under measurement, with one key that has limits which are never reached. */
export interface MeasuredService {
  readonly process: PinnedProcess;
  readonly port: number;
  /** A complete answer of a model without latency. */
  readonly chat: Buffer;
  /** A streamed answer of that model. */
  readonly stream: StreamRequest;
  /** A streamed answer of a model that computes, to a prompt that is new to it. */
  readonly computedStream: StreamRequest;
}

export type StateName = "none" | "embedded" | "redis";

const key = "key-of-the-measurement";
const question = "Say the five words.";
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];

/** Starts the build in `dist` on one core. */
export async function startService(
  options: {
    readonly name: string;
    readonly state: StateName;
    readonly folder: string;
    readonly redisPort: number;
    /** Weights of the model that computes. */
    readonly modelFile: string;
  },
  core: number,
): Promise<MeasuredService> {
  const { state, redisPort, modelFile } = options;
  const folder = join(options.folder, options.name);
  mkdirSync(folder, { recursive: true });
  const config = join(folder, "uis.yaml");
  const models = [
    { id: "test-chat", engine: "scripted", slots: 64, scripted: { text: "one two three four five" } },
    { id: "computed", engine: "llama", source: `file:${modelFile}`, slots: 1, context_length: 1_024 },
  ];
  const unreached = { requests_per_minute: 100_000_000, tokens_per_minute: 1_000_000_000 };
  // JSON is YAML.
  const settings = {
    ...(state === "none" ? { state: { durability: "none" } } : {}),
    rate_limits: { default_key: unreached },
    engine: { threads: 1 },
    models,
  };
  writeFileSync(config, JSON.stringify(settings));
  const { REDIS_URL: _, ...environment } = process.env;
  const env = {
    ...environment,
    UIS_DATA_DIR: join(folder, "data"),
    UIS_BOOTSTRAP_API_KEY: key,
    UIS_OFFLINE: "1",
    ...(state === "redis"
      ? { REDIS_URL: `redis://127.0.0.1:${redisPort}`, UIS_MASTER_KEY: Buffer.alloc(32).toString("base64") }
      : {}),
  };
  const service = await startPinned(core, ["dist/app/cli.js", "serve", "--json", "--config", config, ...ports], env);
  const chat = (model: string, content: string, more: object = {}): Buffer =>
    httpRequest("/v1/chat/completions", key, { model, max_tokens: 20, messages: [{ role: "user", content }], ...more });
  const stream = chat("test-chat", question, { stream: true });
  return {
    process: service,
    port: Number(new URL(String(service.ready["api"])).port),
    chat: chat("test-chat", question),
    stream: () => stream,
    computedStream: (number) => chat("computed", `${number}: ${question}`, { stream: true, max_tokens: 4 }),
  };
}

export interface MeasuredRedis {
  readonly port: number;
  stop(): Promise<void>;
}

/** A Redis with an append-only file that is synced every second, on one core. */
export async function startRedis(folder: string, core: number): Promise<MeasuredRedis> {
  const port = await freePort();
  mkdirSync(folder, { recursive: true });
  const settings = [
    "--port",
    String(port),
    "--dir",
    folder,
    "--appendonly",
    "yes",
    "--save",
    "",
    "--bind",
    "127.0.0.1",
  ];
  const child = spawn("taskset", ["-c", String(core), "redis-server", ...settings], { stdio: "ignore" });
  killAtExit(child);
  for (let tries = 0; tries < 100; tries++) {
    const ping = spawn("redis-cli", ["-p", String(port), "ping"], { stdio: "ignore" });
    const [code] = (await once(ping, "exit")) as [number];
    if (code === 0) break;
    await delay(50);
  }
  return {
    port,
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const closed = once(server, "close");
  server.close();
  await closed;
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
