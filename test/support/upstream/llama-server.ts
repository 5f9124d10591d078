import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { setTimeout as delay } from "node:timers/promises";
import { hasPython, pythonVenv } from "../python-venv.js";

/** A Python program that starts llama.cpp's server, prints its address, and ends it when standard input closes. */
const program = `
import json, os, sys, xllamacpp
given = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = given["file"]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = given["slots"] * given["contextLength"]
params.n_parallel = given["slots"]
params.n_batch = params.n_ubatch = given["batch"]
params.n_gpu_layers = 0
params.fit_params = False
params.embedding = given["embedding"]
params.use_jinja = True
params.endpoint_slots = True
params.api_keys = given["keys"]
if given["alias"]:
    params.model_alias = {given["alias"]}
for threads in (params.cpuparams, params.cpuparams_batch):
    threads.n_threads = given["threads"]
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
`;

const requirements = "test/support/upstream/llama-server.txt";

/** Installs the server from PyPI the first time, about 30 MB. Returns the reason why this machine cannot have it, or null. */
export async function whyNoLlamaServer(): Promise<string | null> {
  if (!hasPython) return "python3 with venv is not installed";
  try {
    await pythonVenv(requirements);
    return null;
  } catch (error) {
    return `pip cannot install it: ${String(error).trim().split("\n").at(-1)}`;
  }
}

export interface LlamaServerOptions {
  /** A GGUF file. */
  readonly file: string;
  readonly slots: number;
  /** Tokens of each slot. */
  readonly contextLength: number;
  /** Default 1. */
  readonly threads?: number;
  /** Whether the model is for embeddings. */
  readonly embedding?: boolean;
  /** Prompt tokens per batch: an abort takes effect between batches. Default 512. */
  readonly batch?: number;
  /** Key that requests need; null, the default: none. */
  readonly key?: string | null;
  /** Name of the model; null, the default: the path of its file. */
  readonly alias?: string | null;
}

/** A slot in the answer of `/slots`. */
interface SlotState {
  readonly is_processing: boolean;
  readonly next_token?: readonly { readonly n_decoded: number }[];
}

/** llama.cpp's own HTTP server with one loaded model. It ends with the process that started it. */
export class LlamaServer {
  /** Base URL of its OpenAI API. */
  readonly url: string;
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #key: string | null;

  private constructor(child: ChildProcess, address: string, key: string | null) {
    this.url = `${address}/v1`;
    this.pid = child.pid ?? 0;
    this.#child = child;
    this.#key = key;
  }

  /** Resolves when the model is loaded. */
  static async start(options: LlamaServerOptions): Promise<LlamaServer> {
    const python = await pythonVenv(requirements);
    const { key = null, ...given } = options;
    const defaults = { threads: 1, embedding: false, batch: 512, alias: null, keys: key === null ? [] : [key] };
    const argument = JSON.stringify({ ...defaults, ...given });
    const child = spawn(python, ["-c", program, argument], { stdio: ["pipe", "pipe", "ignore"] });
    const lines = createInterface(child.stdout);
    const [address] = (await Promise.race([once(lines, "line"), once(child, "exit")])) as [string | number];
    if (typeof address !== "string") throw new Error(`llama.cpp's server exited with ${address}`);
    const server = new LlamaServer(child, address, key);
    while (!(await fetch(`${address}/health`)).ok) await delay(20);
    return server;
  }

  /** Tokens generated so far by each of the slots that are in use. */
  async busySlots(): Promise<readonly number[]> {
    const headers: Record<string, string> = this.#key === null ? {} : { authorization: `Bearer ${this.#key}` };
    const response = await fetch(`${this.url.replace(/\/v1$/, "")}/slots`, { headers });
    if (!response.ok) throw new Error(`/slots answered ${response.status}`);
    const slots = (await response.json()) as readonly SlotState[];
    return slots.filter(({ is_processing }) => is_processing).map(({ next_token }) => next_token?.[0]?.n_decoded ?? 0);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }
}
