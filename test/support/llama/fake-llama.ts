import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Logger } from "../../../src/domain/call/ports.js";
import {
  type Engine,
  EngineError,
  type GenEvent,
  type GenerateRequest,
  type LoadedModel,
  type LoadProgress,
  type RequestDefaults,
} from "../../../src/domain/engine/engine.js";
import { type LlamaSettings, llamaEngine } from "../../../src/engines/llama/llama-engine.js";
import { eventually } from "../eventually.js";
import { FakeClock } from "../fake-clock.js";
import { processorBuild } from "./processor-build.js";

type HowLoaded = "ok" | "fail" | "die" | "hang";

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export interface FakeLlamaOptions {
  /** Result of the load of each child in turn; the last one is repeated. */
  readonly loads?: readonly HowLoaded[];
  readonly kind?: "chat" | "embedding";
  readonly defaults?: RequestDefaults;
  readonly settings?: Partial<LlamaSettings>;
  readonly environment?: Readonly<Record<string, string>>;
}

const never = new AbortController().signal;

/**
 * The engine with a child program that takes commands from prompts (fake-child.mjs): real processes, and a clock that only
 * the test advances.
 */
export class FakeLlama {
  readonly clock = new FakeClock();
  readonly log: LogLine[] = [];
  readonly progress: LoadProgress[] = [];
  readonly #options: FakeLlamaOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), "fake-llama-"));
  readonly #file: string;
  readonly #models: LoadedModel[] = [];
  #engine: Engine | null = null;

  constructor(options: FakeLlamaOptions = {}) {
    this.#options = options;
    this.#file = join(this.#folder, `${options.kind ?? "chat"}.json`);
    writeFileSync(this.#file, JSON.stringify({ loads: options.loads ?? ["ok"] }));
  }

  async load(signal: AbortSignal = never): Promise<LoadedModel> {
    const { kind = "chat", settings, environment = {}, defaults } = this.#options;
    const recommended = defaults === undefined ? {} : { defaults };
    this.#engine ??= llamaEngine.create({
      clock: this.clock,
      log: this.#logger(),
      files: {
        locate: async () => ({
          path: this.#file,
          kind,
          trainedContext: 2048,
          shortenableEmbeddings: true,
          ...recommended,
        }),
      },
      settings: { stallMs: 30_000, circuitCrashes: 5, threads: 1, build: processorBuild, ...settings },
      environment,
      childEntry: fileURLToPath(new URL("./fake-child.mjs", import.meta.url)),
    });
    const spec = { id: "m", deployment: "d", contextLength: 4096, slots: 2, options: {} };
    const model = await this.#engine.load(spec, (progress) => this.progress.push(progress), signal);
    this.#models.push(model);
    return model;
  }

  /** Number of children that have begun to load the model. */
  get lives(): number {
    try {
      return readFileSync(`${this.#file}.lives`).length;
    } catch {
      return 0;
    }
  }

  lines(message: string): readonly LogLine[] {
    return this.log.filter((line) => line.message === message);
  }

  /** Resolves when this many children have ended. */
  async ended(count: number): Promise<void> {
    await eventually(() => this.lines("engine process ended").length >= count, `the end of ${count} children`);
  }

  /** Resolves when this many children have loaded. */
  async loaded(count: number): Promise<void> {
    await eventually(
      () => this.lines("engine process has loaded its model").length >= count,
      `the load of ${count} children`,
    );
  }

  async close(): Promise<void> {
    for (const model of this.#models) {
      const unloaded = model.unload(0);
      this.clock.advance(0);
      await unloaded;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #logger(): Logger {
    const at =
      (level: LogLine["level"]) =>
      (fields: object, message: string): void => {
        this.log.push({ level, fields: { ...fields }, message });
      };
    return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  }
}

/** A call whose prompt is a command to the fake child. */
export function tell(prompt: string): GenerateRequest {
  return {
    requestId: "req_1",
    input: { prompt },
    n: 1,
    maxTokens: 60,
    stop: [],
    temperature: 0,
    topP: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    queueMs: 0,
    cacheKey: "default",
    deltas: "each",
  };
}

/** The events of a call, and the error that ended it. */
export async function outcome(
  model: LoadedModel,
  prompt: string,
  signal: AbortSignal = never,
  changes: Partial<GenerateRequest> = {},
): Promise<{ events: GenEvent[]; error: EngineError | null }> {
  const events: GenEvent[] = [];
  try {
    await model.generate({ ...tell(prompt), ...changes }, signal, (event) => {
      events.push(event);
      return undefined;
    });
    return { events, error: null };
  } catch (error) {
    if (error instanceof EngineError) return { events, error };
    throw error;
  }
}

export function textOf(events: readonly GenEvent[]): string {
  return events.map((event) => (event.type === "text" ? event.text : "")).join("");
}
