import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { hasPython } from "../support/python-venv.js";
import { killAtExit } from "./cleanup.js";
import { cpuMs } from "./process-figures.js";

const requirement = "xllamacpp==2026.10.11549";
const startMaxMs = 60_000;

/** Starts the server of llama.cpp and keeps it until its standard input closes. */
const program = `
import json, sys, xllamacpp
given = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = given["file"]
params.hostnames = ["127.0.0.1"]
params.port = given["port"]
params.n_ctx = given["slots"] * given["contextLength"]
params.n_parallel = given["slots"]
params.n_batch = params.n_ubatch = 512
params.n_gpu_layers = 0
params.fit_params = False
params.embedding = given["embedding"]
for threads in (params.cpuparams, params.cpuparams_batch):
    threads.n_threads = given["threads"]
params.verbosity = 0
server = xllamacpp.Server(params)
sys.stdin.read()
`;

/**
 * Installs llama.cpp's own server from PyPI into a virtual environment in the folder. Returns its interpreter, or the
 * reason why this machine cannot have it.
 */
export async function installLlamaServer(folder: string): Promise<{ python: string } | { reason: string }> {
  if (!hasPython) return { reason: "python3 with venv is not installed" };
  const venv = join(folder, "venv");
  const python = join(venv, "bin/python");
  try {
    await run("python3", ["-m", "venv", venv]);
    await run(python, ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", requirement]);
    return { python };
  } catch (error) {
    return { reason: `pip cannot install ${requirement}: ${String(error).trim().split("\n").at(-1)}` };
  }
}

async function run(command: string, args: readonly string[]): Promise<void> {
  const running = promisify(execFile)(command, args);
  killAtExit(running.child);
  await running;
}

export interface LlamaServerOptions {
  readonly python: string;
  readonly file: string;
  readonly embedding: boolean;
  readonly threads: number;
  readonly slots: number;
  /** Tokens of each slot. */
  readonly contextLength: number;
}

export interface LlamaServer {
  /** Base of its OpenAI API. */
  readonly url: string;
  /** Processor time used so far, in milliseconds. */
  cpuMs(): number;
  stop(): Promise<void>;
}

/** Resolves when the model is loaded. */
export async function startLlamaServer({ python, ...options }: LlamaServerOptions): Promise<LlamaServer> {
  const port = await freePort();
  const child = spawn(python, ["-c", program, JSON.stringify({ ...options, port })], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  killAtExit(child);
  await untilLoaded(child, `http://127.0.0.1:${port}/health`);
  return {
    url: `http://127.0.0.1:${port}/v1`,
    cpuMs: () => cpuMs(child.pid ?? 0),
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function untilLoaded(child: ChildProcess, health: string): Promise<void> {
  const giveUpAtMs = performance.now() + startMaxMs;
  while (performance.now() < giveUpAtMs) {
    if (child.exitCode !== null) throw new Error(`llama.cpp's server exited with ${child.exitCode}`);
    const isLoaded = await fetch(health).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isLoaded) return;
    await delay(50);
  }
  throw new Error(`llama.cpp's server has not loaded its model in ${startMaxMs} ms`);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}
