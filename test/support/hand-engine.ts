import {
  type Capabilities,
  type EmbedResult,
  type EmitEvent,
  type Engine,
  EngineError,
  type GenEvent,
  type GenerateRequest,
  type LoadedModel,
  type RerankRequest,
  type RerankResult,
} from "../../src/domain/engine/engine.js";
import type { AbortFlag } from "../../src/lib/abort-source.js";
import { caps } from "./capabilities.js";

/** One run of the engine, controlled by the test: events are emitted when `say` is called. */
export class HandRun {
  readonly request: GenerateRequest;
  readonly signal: AbortFlag;
  #queue: GenEvent[] = [];
  #error: unknown;
  #over = false;
  #wake: () => void = () => {};

  constructor(request: GenerateRequest, signal: AbortFlag) {
    this.request = request;
    this.signal = signal;
    signal.addEventListener("abort", () => this.fail(new EngineError("aborted", "aborted", { usage: this.usage })));
  }

  /** The usage that an aborted run reports. */
  usage = { promptTokens: 3, outTokens: 0, cachedTokens: 0 };

  say(...events: GenEvent[]): void {
    this.#queue.push(...events);
    this.#wake();
  }

  /** Emits a whole answer with one choice. */
  answer(text: string): void {
    this.say(
      { type: "accepted", promptTokens: 3, cachedTokens: 0 },
      { type: "text", choice: 0, text, outTokens: 1 },
      { type: "finish", choice: 0, reason: "stop", outTokens: 1 },
      { type: "usage", promptTokens: 3, outTokens: 1, cachedTokens: 0, reasoningTokens: 0 },
    );
    this.end();
  }

  end(): void {
    this.#over = true;
    this.#wake();
  }

  fail(error: unknown): void {
    this.#error = error;
    this.end();
  }

  async emitAll(emit: EmitEvent): Promise<void> {
    for (;;) {
      const event = this.#queue.shift();
      if (event !== undefined) await emit(event);
      else if (this.#over) {
        if (this.#error !== undefined) throw this.#error;
        return;
      } else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}

/** An engine that is controlled by the test, for tests of the domain. */
export class HandEngine implements Engine {
  readonly runs: HandRun[] = [];
  readonly #caps: Partial<Capabilities>;
  #awaited: (() => void) | null = null;

  constructor(caps: Partial<Capabilities> = {}) {
    this.#caps = caps;
  }

  load(spec: { id: string }): Promise<LoadedModel> {
    return Promise.resolve({
      id: spec.id,
      caps: caps({ vision: false, ...this.#caps }),
      fingerprint: "hand",
      countTokens: (_input, signal) => this.countTokens(signal),
      generate: (request, signal, emit) => {
        const run = new HandRun(request, signal);
        this.runs.push(run);
        this.#awaited?.();
        return run.emitAll(emit);
      },
      embed: ({ inputs }) => this.embed(inputs.length),
      rerank: (request) => this.rerank(request),
      stats: () => ({ slotsBusy: 0, producedTokens: 0, restarts: 0 }),
      unload: () => Promise.resolve(),
    });
  }

  /** The tokens of a prompt; a test may replace it. */
  countTokens = (_signal: AbortFlag): Promise<number | null> => Promise.resolve(null);

  /** The result of an embedding call; a test may replace it. */
  embed = (_inputs: number): Promise<EmbedResult> =>
    Promise.reject(new EngineError("unsupported", "not an embedding model"));

  /** The result of a rerank call; a test may replace it. */
  rerank = (_request: RerankRequest): Promise<RerankResult> =>
    Promise.reject(new EngineError("unsupported", "not a reranking model"));

  /** Resolves with the run at this position as soon as it has begun. */
  async run(position = 0): Promise<HandRun> {
    for (;;) {
      const run = this.runs[position];
      if (run !== undefined) return run;
      await new Promise<void>((resolve) => {
        this.#awaited = resolve;
      });
    }
  }
}
