import { LazyAbort, type StopSignal } from "../../lib/lazy-abort.js";
import type { AnswerHead } from "../call/answer.js";
import type { Call } from "../call/call.js";
import { Ended, errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import type { ServiceError } from "../call/service-error.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Deployment } from "../catalog/deployment.js";
import { EngineError, type GenEvent, type GenerateRequest, type LoadedModel } from "../engine/engine.js";
import { mayGoElsewhere, serviceErrorOf } from "../engine/engine-error.js";
import type { Slot } from "../engine/model-queue.js";
import type { Admitted } from "../metering/ledger.js";
import { answerHead } from "../metering/limit-response.js";
import { CompleteCalls } from "./complete-calls.js";
import type { Prompt } from "./completion-request.js";
import type { Run } from "./run.js";
import { waitForModel } from "./wait-for-model.js";

/** Takes what the engine says; a promise asks the engine to wait. `choice` counts over the whole request. */
export type EventSink = (choice: number, event: GenEvent) => Promise<void> | undefined;

export interface GenerationDeps {
  readonly clock: Clock;
  readonly commitMs: number;
  readonly queueWaitMs: number;
}

export interface GenerationPlan {
  readonly call: Call;
  readonly run: Run;
  readonly model: CatalogModel;
  readonly prompts: readonly Prompt[];
  readonly admission: Admitted;
  /** Told which model answers, before its first event. */
  answeredBy(model: LoadedModel): void;
}

/** Who takes what a generation makes. */
export interface GenerationReader {
  readonly sink: EventSink;
  /**
   * Told once: at the first content, `commitMs` after a slot was granted, or at a good end without content. Null: nobody
   * reads along, and a failure may go to another deployment until there is content.
   */
  readonly commit: ((head: AnswerHead) => void) | null;
}

/**
 * The engine's part of one admitted request: for each prompt a slot of the model's queue and one run of the engine.
 * Until it is committed a failure may go to another deployment and reaches the caller as a status.
 */
export class Generation {
  readonly #deps: GenerationDeps;
  readonly #plan: GenerationPlan;
  readonly #reader: GenerationReader;
  /** Ends the other prompts when one fails; a request with one prompt needs none of its own. */
  readonly #abort: LazyAbort | null;
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
    this.#abort = plan.prompts.length > 1 ? new LazyAbort() : null;
  }

  get head(): AnswerHead {
    const ran = { deployment: this.#deployment?.id ?? "", attempts: this.#attempts, queueMs: this.#queueMs };
    return answerHead(ran, this.#plan.admission);
  }

  get #signal(): StopSignal {
    return this.#abort ?? this.#plan.call.stop;
  }

  /**
   * Resolves when all prompts are through; rejects with what an engine threw, or with the end's own error at the call's
   * end: an engine that does not heed its signal is not waited for. Called once.
   */
  run(): Promise<void> {
    const { stop } = this.#plan.call;
    if (stop.aborted) {
      this.#over();
      return Promise.reject(errorOfEnd(stop.reason));
    }
    // A promise by hand and no async function over another: this is on the path of every request.
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

  /** The engine has said its last word. */
  #over(): void {
    this.#cancelCommitTimer?.();
    this.#plan.run.engineEnded();
  }

  #runPrompts(): Promise<void> {
    const [first, second] = this.#plan.prompts;
    return first !== undefined && second === undefined ? this.#runPrompt(first, false, null) : this.#runBatch();
  }

  /**
   * The first prompt waits for its slot like any request. The others then run beside and after it, on as many slots as
   * the deployment has, and wait their turn for each: a batch never holds a slot that somebody else waits for.
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
   * Tries the model's deployments in turn, the least loaded first. One function for a try and for all of them: each one
   * more that waits costs every request.
   */
  async #runPrompt(prompt: Prompt, continuing: boolean, granted: Granted | null): Promise<void> {
    const { call, model } = this.#plan;
    const deployments = model.byLoad();
    for (const deployment of deployments) {
      let slot: Slot | null = null;
      try {
        this.#beginTry(continuing);
        const loaded = deployment.model ?? (await waitForModel(deployment, this.#deps, this.#signal));
        // Further prompts of a batch wait a moment even for a free slot, so that the first one begins first.
        slot = continuing ? null : deployment.queue.tryAcquire();
        slot ??= await deployment.queue.acquire(call, this.#signal, continuing);
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
    if (!continuing) this.#plan.call.enter("queued");
  }

  #mayTryNext(error: ServiceError): boolean {
    return !this.#isCommitted && !this.#signal.aborted && mayGoElsewhere(error);
  }

  #granted(deployment: Deployment, model: LoadedModel, queueMs: number): void {
    this.#deployment = deployment;
    this.#plan.answeredBy(model);
    this.#queueMs += queueMs;
    this.#plan.call.enter("running");
    this.#plan.call.waited(this.#queueMs);
    if (this.#reader.commit !== null) {
      this.#cancelCommitTimer ??= this.#deps.clock.after(this.#deps.commitMs, () => this.#commitNow());
    }
  }

  /** Completes what the engine gets; a further try changes how long it waited. */
  #toRequest({ request }: Prompt, queueMs: number): GenerateRequest {
    const { call } = this.#plan;
    request.requestId = call.requestId;
    request.deadlineAtMs = call.deadlineAtMs;
    request.queueMs = queueMs;
    request.cacheKey = call.account;
    request.deltas = this.#reader.commit === null ? "joined" : "each";
    return request;
  }

  /** Counts an event and passes it on; a promise asks the engine to wait. */
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

  /** Takes over what a cut or failed engine says it had produced. */
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

/** What a choice says. */
type ChoiceEvent = Exclude<GenEvent, { type: "accepted" | "usage" }>;

/** Told of a slot that was granted. */
type Granted = (deployment: Deployment) => void;

/** A function, because the compiler does not see that a closure assigned the variable. */
function throwIfFailed(failure: { readonly thrown: unknown } | null): void {
  if (failure !== null) throw failure.thrown;
}
