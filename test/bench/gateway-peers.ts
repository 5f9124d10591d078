import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "../support/redis/redis-process.js";
import { addedLatency, type Bench, baseline, pacedMemory, throughput, warmUp } from "./gateway-measures.js";
import type { Side } from "./gateway-sides.js";
import { checkAnswer, workModels, works } from "./gateway-works.js";
import type { PinnedProcess } from "./pinned-process.js";
import { childPids, cpuMs, rssBytes } from "./process-figures.js";

const run = promisify(execFile);
const startMaxMs = 90_000;
const key = "key-of-the-measurement";

interface Started {
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Another gateway, of a fixed version. */
interface Peer {
  readonly name: string;
  readonly version: string;
  /** Installs the gateway into an empty folder. */
  install(folder: string): Promise<void>;
  /** Writes its configuration into `settings`, if it has one. */
  start(folder: string, settings: string, port: number, upstreamUrl: string): Started;
}

async function pipInstall(folder: string, requirement: string): Promise<void> {
  await run("python3", ["-m", "venv", folder]);
  await run(join(folder, "bin/python"), ["-m", "pip", "install", "--quiet", requirement]);
}

const peers: readonly Peer[] = [
  {
    name: "litellm",
    version: "1.106.2",
    install: (folder) => pipInstall(folder, "litellm[proxy]==1.106.2"),
    start(folder, settings, port, upstreamUrl) {
      const models = workModels.map((model) => ({
        model_name: model,
        litellm_params: { model: `openai/${model}`, api_base: upstreamUrl, api_key: "x" },
      }));
      const general = { general_settings: { master_key: key }, litellm_settings: { callbacks: [], num_retries: 0 } };
      writeFileSync(settings, JSON.stringify({ model_list: models, ...general }));
      const options = ["--config", settings, "--host", "127.0.0.1", "--port", String(port), "--num_workers", "1"];
      // Otherwise it fetches a list of prices at its start.
      const env = { LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_LOG: "ERROR" };
      return { command: [join(folder, "bin/litellm"), ...options], env };
    },
  },
  {
    name: "crabllm",
    version: "0.0.25",
    install: async (folder) => {
      await run("cargo", ["install", "--quiet", "--root", folder, "crabllm", "--version", "0.0.25"]);
    },
    start(folder, settings, port, upstreamUrl) {
      const provider = `kind = "openai"\napi_key = "x"\nbase_url = "${upstreamUrl}"\nmax_retries = 0`;
      const keys = `[[keys]]\nname = "bench"\nkey = "${key}"\nmodels = ["*"]`;
      const models = `models = ${JSON.stringify(workModels)}`;
      writeFileSync(settings, `listen = "127.0.0.1:${port}"\n[providers.mock]\n${provider}\n${models}\n${keys}\n`);
      return { command: [join(folder, "bin/crabllm"), "serve", "--config", settings] };
    },
  },
  {
    name: "vllm-router",
    version: "0.1.17",
    install: (folder) => pipInstall(folder, "vllm-router==0.1.17"),
    start(folder, _, port, upstreamUrl) {
      const worker = new URL(upstreamUrl).origin;
      const options = ["--host", "127.0.0.1", "--port", String(port), "--worker-urls", worker];
      const others = ["--policy", "round_robin", "--prometheus-port", String(port + 1), "--log-level", "error"];
      return { command: [join(folder, "bin/vllm-router"), ...options, ...others] };
    },
  },
  {
    name: "portkey",
    version: "1.15.2",
    async install(folder) {
      // With a newer @hono/node-server every stream is answered with 500.
      const overrides = { "@hono/node-server": "1.14.0" };
      const dependencies = { "@portkey-ai/gateway": "1.15.2" };
      writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies, overrides }));
      await run("npm", ["install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"]);
    },
    start(folder, _, port, upstreamUrl) {
      const program = join(folder, "node_modules/@portkey-ai/gateway/build/start-server.js");
      return {
        command: [process.execPath, program, `--port=${port}`, "--headless"],
        headers: { "x-portkey-provider": "openai", "x-portkey-custom-host": upstreamUrl },
      };
    },
  },
];

/** Installs once, outside the repository. Returns the folder. */
async function provide({ name, version, install }: Peer): Promise<string> {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const folder = join(cache, "uis-bench-peers", `${name}-${version}`);
  const stamp = join(folder, ".installed");
  if (existsSync(stamp)) return folder;
  mkdirSync(folder, { recursive: true });
  process.stderr.write(`installing ${name} ${version} in ${folder}\n`);
  await install(folder);
  writeFileSync(stamp, "");
  return folder;
}

async function startPeer(peer: Peer, { upstream }: Bench, folder: string, core: number): Promise<Side> {
  const port = await freePort();
  const upstreamUrl = `http://127.0.0.1:${String(upstream.ready["port"])}/v1`;
  const settings = join(folder, `${peer.name}.settings`);
  const installed = await provide(peer);
  const { command, env = {}, headers = {} } = peer.start(installed, settings, port, upstreamUrl);
  const child = spawn("taskset", ["-c", String(core), ...command], {
    // LiteLLM also imports from folders above the working directory.
    cwd: installed,
    env: { ...process.env, ...env },
    stdio: "ignore",
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const processOf: PinnedProcess = {
    ready: {},
    pid: child.pid ?? 0,
    cpuMs: () => tree(child.pid ?? 0).reduce((sum, pid) => sum + cpuMs(pid), 0),
    rssBytes: () => tree(child.pid ?? 0).reduce((sum, pid) => sum + rssBytes(pid), 0),
    async stop() {
      const exited = child.exitCode !== null || child.signalCode !== null ? null : once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
  const side: Side = { port, key, headers, process: processOf };
  for (const giveUpAtMs = performance.now() + startMaxMs; ; await delay(200)) {
    const fault = await checkAnswer(peer.name, works.unary, side).catch((error: unknown) => error);
    if (fault === undefined) return side;
    if (child.exitCode !== null) throw new Error(`it exited with ${child.exitCode} before it answered`);
    if (performance.now() < giveUpAtMs) continue;
    await processOf.stop();
    throw new Error(`no right answer ${startMaxMs / 1_000} s after its start`, { cause: fault });
  }
}

function tree(pid: number): readonly number[] {
  return [pid, ...childPids(pid).flatMap(tree)];
}

const measures = {
  unary: (bench: Bench) => throughput(bench, works.unary),
  streams_at_once: (bench: Bench) => throughput(bench, works.streams_at_once),
  one_request_at_a_time: addedLatency,
} as const;

/**
 * Each peer in turns with the pass-through and the service with its state in memory. A peer that cannot be installed or that
 * fails has the reason in place of its figures. Turns of a second undercount LiteLLM: use `--seconds 8` for figures to quote.
 */
export async function measurePeers(
  bench: Bench,
  options: {
    readonly folder: string;
    readonly core: number;
    readonly warmUpSeconds: number;
    readonly holdSeconds: number;
  },
): Promise<Readonly<Record<string, object>>> {
  const report: Record<string, object> = {};
  const beside = [...bench.sides].filter(([name]) => name === baseline || name === "memory");
  for (const peer of peers) {
    const { name, version } = peer;
    const figures: Record<string, unknown> = { version };
    report[name] = figures;
    let side: Side;
    try {
      side = await startPeer(peer, bench, options.folder, options.core);
    } catch (error) {
      figures["skipped"] = reason(error);
      continue;
    }
    const alone: Bench = { ...bench, sides: new Map([[name, side]]) };
    const together: Bench = { ...bench, sides: new Map([...beside, [name, side]]) };
    try {
      await warmUp(alone, works.unary, options.warmUpSeconds);
      for (const [measure, run] of Object.entries(measures)) figures[measure] = await run(together).catch(reason);
      figures["paced_streams"] = await pacedMemory(alone, options.holdSeconds).catch(reason);
    } catch (error) {
      figures["failed"] = reason(error);
    } finally {
      await side.process.stop();
    }
  }
  return report;
}

function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${String(error.cause)}` : "";
  return `${String(error)}${cause}`.slice(0, 500);
}
