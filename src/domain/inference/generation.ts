import { type AbortFlag, AbortSource } from "../../lib/abort-source.js";
import type { Call } from "../call/call.js";
import type { AnswerHead } from "../call/call-context.js";
import { Ended, errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import type { ServiceError } from "../call/service-error.js";
import type { CatalogModel, Deployment } from "../catalog/catalog-model.js";
import { EngineError, type GenEvent, type GenerateRequest, type LoadedModel } from "../engine/engine.js";
import { mayGoElsewhere, serviceErrorOf } from "../engine/engine-error.js";
import type { Slot } from "../engine/model-queue.js";
import type { Admitted } from "../metering/ledger.js";
import { answerHead } from "../metering/limit-response.js";
import { CompleteCalls } from "./complete-calls.js";
import type { Prompt } from "./completion-request.js";
import type { Run } from "./run.js";

/** Receives engine events; a returned promise applies backpressure. `choice` counts over the whole request. */
export type EventSink = (choice: number, event: GenEvent) => Promise<void> | undefined;

export interface GenerationDeps {
  readonly clock: Clock;
  readonly commitMs: number;
}

export interface GenerationPlan {
  readonly call: Call;
  readonly run: Run;
  readonly model: CatalogModel;
  readonly prompts: readonly Prompt[];
  readonly admission: Admitted;
  /** Called with the model that answers, before its first event. */
  answeredBy(model: LoadedModel): void;
}

/** Consumer of a generation. */
export interface GenerationReader {
  readonly sink: EventSink;
  /**
   * Called once: at the first content, `commitMs` after the slot was granted, or at a good end without content. Null
   * for an answer that is not streamed: failures may then fail over until there is content.
   */
  readonly commit: ((head: AnswerHead) => void) | null;
}

/**
 * Runs one admitted request in engines: a slot and a run for each prompt. Until the commit a failure may fail over to
 * another deployment and is reported as a status.
 */
export class Generation {
  readonly #deps: GenerationDeps;
  readonly #plan: GenerationPlan;
  readonly #reader: GenerationReader;
  /** Ends the other prompts when one fails; null for a single prompt. */
  readonly #abort: AbortSource | null;
  #isCommitted = false;
  #hasContent = false;
  #cancelCommitTimer: (() => void) | null = null;
  #deployment: Deployment | null = null;
  #attempts = 0;
  #queueMs = 0;

  constructor(deps: GenerationDeps, plan: GenerationPlan, reader: GenerationReader) {
    this.#deps = deps;
    this.#plan = plan;
    this.#reader = reader;
    this.#abort = plan.prompts.length > 1 ? new AbortSource() : null;
  }

  get head(): AnswerHead {
    const ran = { deployment: this.#deployment?.id ?? "", attempts: this.#attempts, queueMs: this.#queueMs };
    return answerHead(ran, this.#plan.admission);
  }

  get #signal(): AbortFlag {
    return this.#abort ?? this.#plan.call.stop;
  }

  /**
   * Resolves when all prompts have finished. Rejects with the engine's error, or as soon as the call ends: an engine
   * that ignores its signal is not awaited. Call it once.
   */
  run(): Promise<void> {
    const { stop } = this.#plan.call;
    if (stop.aborted) {
      this.#over();
      return Promise.reject(errorOfEnd(stop.reason));
    }
    // One promise instead of nested async functions: this is on the path of every request.
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(errorOfEnd(stop.reason));
      stop.addEventListener("abort", onAbort);
      const over = (): void => {
        stop.removeEventListener("abort", onAbort);
        this.#over();
      };
      this.#runPrompts().then(
        () => {
          this.#commitNow();
          over();
          resolve();
        },
        (thrown: unknown) => {
          over();
          reject(thrown);
        },
      );
    });
  }

  /** The engine has finished. */
  #over(): void {
    this.#cancelCommitTimer?.();
    this.#plan.run.engineEnded();
  }

  #runPrompts(): Promise<void> {
    const [first, second] = this.#plan.prompts;
    return first !== undefined && second === undefined ? this.#runPrompt(first, false, null) : this.#runBatch();
  }

  /**
   * The first prompt queues like any request. The others then use further slots and queue for each of them, so that a
   * batch never holds a slot that another request waits for.
   */
  async #runBatch(): Promise<void> {
    const { call, prompts } = this.#plan;
    const follow = (): void => this.#abort?.abort(call.stop.reason);
    call.stop.addEventListener("abort", follow);
    try {
      await this.#runAll(prompts);
    } finally {
      call.stop.removeEventListener("abort", follow);
    }
  }

  async #runAll(prompts: readonly Prompt[]): Promise<void> {
    let next = 0;
    let failure: { readonly thrown: unknown } | null = null;
    const runRest = async (continuing: boolean): Promise<void> => {
      try {
        for (let prompt = prompts[next++]; prompt !== undefined; prompt = prompts[next++]) {
          await this.#runPrompt(prompt, continuing, startHelpers);
          continuing = true;
        }
      } catch (thrown) {
        failure ??= { thrown };
        this.#abort?.abort(new Ended("failed"));
      }
    };
    let helpers: Promise<void>[] | null = null;
    const startHelpers: Granted = (deployment) => {
      const count = Math.min(prompts.length, deployment.queue.slots) - 1;
      helpers ??= Array.from({ length: count }, () => runRest(true));
    };
    await runRest(false);
    await Promise.all(helpers ?? []);
    throwIfFailed(failure);
  }

  /**
   * Tries the model's deployments in order of load. One function for one and for all tries, because each additional
   * await costs every request.
   */
  async #runPrompt(prompt: Prompt, continuing: boolean, granted: Granted | null): Promise<void> {
    const { call, model } = this.#plan;
    const deployments = model.byLoad();
    for (const deployment of deployments) {
      let slot: Slot | null = null;
      try {
        this.#beginTry(continuing);
        const loaded = deployment.model ?? (await deployment.onceLoaded(this.#signal));
        // Further prompts always queue, so that the first one starts first.
        slot = continuing ? null : deployment.queue.tryAcquire();
        slot ??= await deployment.queue.acquire(call.principal, this.#signal, continuing);
        if (!continuing) this.#granted(deployment, loaded, slot.queueMs);
        granted?.(deployment);
        const calls = new CompleteCalls();
        let finished = 0;
        for await (const event of loaded.generate(this.#toRequest(prompt, slot.queueMs), this.#signal)) {
          if (event.type === "finish") {
            finished += 1;
            call.details?.finishReasons.push(event.reason);
          }
          const wait = this.#take(prompt, event, calls);
          if (wait !== undefined) await wait;
        }
        if (finished < prompt.request.n) throw new EngineError("upstream_error", "the engine ended before it finished");
        return;
      } catch (thrown) {
        const error = this.#noteFailure(prompt, thrown);
        if (deployment === deployments.at(-1) || !this.#mayTryNext(error)) throw error;
        call.log.warn({ deployment: deployment.id, error: error.code }, "deployment failed, trying the next");
      } finally {
        slot?.release();
      }
    }
  }

  #beginTry(continuing: boolean): void {
    this.#attempts += 1;
    if (this.#signal.aborted) throw errorOfEnd(this.#signal.reason);
    if (!continuing) this.#plan.call.stage = "queued";
  }

  #mayTryNext(error: ServiceError): boolean {
    return !this.#isCommitted && !this.#signal.aborted && mayGoElsewhere(error);
  }

  #granted(deployment: Deployment, model: LoadedModel, queueMs: number): void {
    this.#deployment = deployment;
    this.#plan.answeredBy(model);
    this.#queueMs += queueMs;
    this.#plan.call.stage = "running";
    this.#plan.call.waited(this.#queueMs);
    if (this.#reader.commit !== null) {
      this.#cancelCommitTimer ??= this.#deps.clock.after(this.#deps.commitMs, () => this.#commitNow());
    }
  }

  /** Completes the engine request in place. */
  #toRequest({ request }: Prompt, queueMs: number): GenerateRequest {
    const { call } = this.#plan;
    request.requestId = call.requestId;
    request.queueMs = queueMs;
    request.cacheKey = call.principal.account;
    request.deltas = this.#reader.commit === null ? "joined" : "each";
    return request;
  }

  /** Counts an event and forwards it; a returned promise applies backpressure. */
  #take(prompt: Prompt, event: GenEvent, calls: CompleteCalls): Promise<void> | undefined {
    this.#count(prompt, event);
    if (event.type === "accepted" || event.type === "usage") return undefined;
    const missing = calls.before(event);
    return missing === null ? this.#passOn(prompt, event) : this.#passOnBoth(prompt, missing, event);
  }

  async #passOnBoth(prompt: Prompt, first: ChoiceEvent, second: ChoiceEvent): Promise<void> {
    await this.#reader.sink(prompt.base + first.choice, first);
    await this.#passOn(prompt, second);
  }

  #passOn(prompt: Prompt, event: ChoiceEvent): Promise<void> | undefined {
    if (!this.#hasContent && event.type !== "finish") this.#noteFirstContent(event.outTokens);
    const wait = this.#reader.sink(prompt.base + event.choice, event);
    this.#commitNow();
    return wait;
  }

  #noteFirstContent(tokens: number): void {
    this.#hasContent = true;
    this.#plan.call.times.firstContent(this.#deps.clock.monotonic(), tokens, this.#reader.commit !== null);
  }

  #count(prompt: Prompt, event: GenEvent): void {
    const { run } = this.#plan;
    switch (event.type) {
      case "accepted":
        if (prompt.countsPrompt) run.tally.prompt(prompt.base, event.promptTokens ?? 0, event.cachedTokens);
        return;
      case "usage":
        if (prompt.countsPrompt)
          run.tally.prompt(prompt.base, event.promptTokens, event.cachedTokens, event.reasoningTokens);
        run.tally.close(prompt.base, prompt.request.n, event.outTokens);
        return;
      default:
        run.produced(prompt.base + event.choice, event.outTokens);
    }
  }

  /** Records the usage reported by an aborted or failed engine. */
  #noteFailure(prompt: Prompt, thrown: unknown): ServiceError {
    const usage = thrown instanceof EngineError ? thrown.usage : null;
    if (usage !== null) {
      const { tally } = this.#plan.run;
      if (prompt.countsPrompt) tally.prompt(prompt.base, usage.promptTokens, usage.cachedTokens);
      tally.close(prompt.base, prompt.request.n, usage.outTokens);
    }
    return serviceErrorOf(thrown);
  }

  #commitNow(): void {
    if (this.#isCommitted) return;
    this.#isCommitted = true;
    this.#cancelCommitTimer?.();
    this.#reader.commit?.(this.head);
  }
}

/** Events of a choice. */
type ChoiceEvent = Exclude<GenEvent, { type: "accepted" | "usage" }>;

/** Called when a slot is granted. */
type Granted = (deployment: Deployment) => void;

/** A function, because the compiler does not track the assignment in the closure. */
function throwIfFailed(failure: { readonly thrown: unknown } | null): void {
  if (failure !== null) throw failure.thrown;
}
