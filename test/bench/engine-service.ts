import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { killAtExit, temporaryFolder } from "./cleanup.js";
import { childPids, cpuMs, rssBytes } from "./process-figures.js";
import { mutedBias, type RoundResult, type StreamRound, type StreamTask, sampling } from "./stream-round.js";

export interface ServedModel {
  readonly id: string;
  readonly file: string;
  readonly slots: number;
  readonly contextLength: number;
}

export interface LoopDelay {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Answer {
  readonly tokens: number;
  readonly cachedTokens: number;
  readonly firstMs: number;
}

/** The built service in a process of its own, with models of the embedded engine on one thread each. */
export class EngineService {
  readonly #folder: string;
  readonly #child: ChildProcess;
  readonly #pid: number;
  readonly #api: string;
  readonly #key: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #delayFile: string;

  static async start(models: readonly ServedModel[]): Promise<EngineService> {
    const folder = temporaryFolder("engine-bench");
    const entries = models.map(({ id, file, slots, contextLength }) => {
      return { id, engine: "llama", source: `file:${file}`, slots, context_length: contextLength };
    });
    const config = { state: { durability: "none" }, engine: { threads: 1 }, models: entries };
    // JSON is YAML.
    writeFileSync(join(folder, "uis.yaml"), JSON.stringify(config));
    const delayFile = join(folder, "loop-delay.json");
    const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
    const child = spawn(
      process.execPath,
      ["--import", at("./loop-delay.mjs"), at("../../dist/app/cli.js"), "serve", "--json"],
      {
        cwd: folder,
        env: {
          PATH: process.env["PATH"],
          LOG_LEVEL: "error",
          PORT: "0",
          UIS_GRPC_PORT: "0",
          UIS_OPS_PORT: "0",
          UIS_OFFLINE: "1",
          LOOP_DELAY_FILE: delayFile,
        },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    killAtExit(child);
    const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`the service ended: ${code}`)));
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface(child.stdout), "line"), ended]);
    return new EngineService(folder, child, JSON.parse(String(line)), delayFile);
  }

  private constructor(folder: string, child: ChildProcess, ready: Ready, delayFile: string) {
    this.#folder = folder;
    this.#child = child;
    this.#pid = child.pid ?? 0;
    this.#api = ready.api;
    this.#key = ready.api_key.secret;
    this.#delayFile = delayFile;
  }

  /** Base URL and API key, for other requests, and the processor time used so far. */
  get endpoint(): { readonly url: string; readonly key: string; cpuMs(): number } {
    return { url: this.#api, key: this.#key, cpuMs: () => this.#cpuMs() };
  }

  /** Resident bytes of the engine's processes, the smallest first. */
  engineRssBytes(): readonly number[] {
    return childPids(this.#pid)
      .map(rssBytes)
      .sort((a, b) => a - b);
  }

  /** Runs the streams of a round against a model, over REST and SSE. */
  async run(model: string, round: StreamRound): Promise<RoundResult> {
    const startedMs = performance.now();
    const cpuBefore = this.#cpuMs();
    const answers = await Promise.all(round.tasks.map((task) => this.stream(model, task, round)));
    return {
      tokens: answers.reduce((sum, { tokens }) => sum + tokens, 0),
      ms: performance.now() - startedMs,
      firstMs: answers.map(({ firstMs }) => firstMs),
      cpuMs: this.#cpuMs() - cpuBefore,
    };
  }

  async stream(model: string, { prompt, seed }: StreamTask, { tokens, muted }: StreamRound): Promise<Answer> {
    const body = {
      model,
      prompt,
      seed,
      max_tokens: tokens,
      temperature: sampling.temperature,
      logit_bias: Object.fromEntries(muted.map((token) => [token, mutedBias])),
      stream: true,
      stream_options: { include_usage: true },
    };
    const startedMs = performance.now();
    const sent = request(`${this.#api}/completions`, {
      method: "POST",
      agent: this.#agent,
      headers: { authorization: `Bearer ${this.#key}`, "content-type": "application/json" },
    });
    sent.end(JSON.stringify(body));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    let firstMs = 0;
    let last = "";
    for await (const data of response as AsyncIterable<Buffer>) {
      if (firstMs === 0) firstMs = performance.now() - startedMs;
      last = last.slice(-2_000) + data.toString("latin1");
    }
    if (response.statusCode !== 200) throw new Error(`the service answered ${response.statusCode}: ${last}`);
    const number = (name: string): number => Number(new RegExp(`"${name}":(\\d+)`).exec(last)?.[1] ?? 0);
    return { tokens: number("completion_tokens"), cachedTokens: number("cached_tokens"), firstMs };
  }

  /** Delays of the server's event loop since the last call. */
  async loopDelay(): Promise<LoopDelay> {
    rmSync(this.#delayFile, { force: true });
    this.#child.kill("SIGUSR2");
    while (!existsSync(this.#delayFile)) await delay(5);
    return JSON.parse(readFileSync(this.#delayFile, "utf8")) as LoopDelay;
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #cpuMs(): number {
    return [this.#pid, ...childPids(this.#pid)].reduce((sum, pid) => sum + cpuMs(pid), 0);
  }
}

interface Ready {
  readonly api: string;
  readonly api_key: { readonly secret: string };
}
