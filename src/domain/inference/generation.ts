import { errorRow } from "../../contract/errors.js";
import type { Call } from "../call.js";
import { Ended, errorOfEnd } from "../call-context.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Deployment } from "../catalog/deployment.js";
import type { AnswerHead } from "../core.js";
import type { Admission } from "../ledger.js";
import type { Clock } from "../ports.js";
import type { Run } from "../run.js";
import type { ServiceError } from "../service-error.js";
import { CompleteCalls } from "./complete-calls.js";
import { EngineError, type GenEvent, type LoadedModel } from "./engine.js";
import { serviceErrorOf } from "./engine-error.js";
import type { GenerateBase } from "./generate-base.js";
import { waitForModel } from "./wait-for-model.js";

/** One prompt of a request, and where its choices stand among all choices of the request. */
export interface Prompt {
  readonly base: number;
  readonly request: GenerateBase;
  /** False for further runs of a prompt that was counted already. */
  readonly countsPrompt: boolean;
}

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
  readonly admission: Extract<Admission, { admitted: true }>;
  readonly deltas: "each" | "joined";
  readonly sink: EventSink;
  /** Told which model answers, before its first event. */
  answeredBy(model: LoadedModel): void;
}

/**
 * The engine's part of one admitted request: for each prompt a slot of the model's queue and one run of the engine.
 *
 * `committed` resolves at the first content, or `commitMs` after a slot was granted; until then a failure may go to
 * another deployment and reaches the caller as a status. `done` settles when all prompts are through.
 */
export class Generation {
  readonly committed: Promise<AnswerHead>;
  readonly done: Promise<void>;
  readonly #deps: GenerationDeps;
  readonly #plan: GenerationPlan;
  /** Ends the other prompts when one fails; a request with one prompt needs none of its own. */
  readonly #abort: AbortController | null;
  #commit: (head: AnswerHead) => void = () => {};
  #refuse: (error: unknown) => void = () => {};
  #isCommitted = false;
  #cancelCommitTimer: (() => void) | null = null;
  #deployment: Deployment | null = null;
  #attempts = 0;
  #queueMs = 0;

  constructor(deps: GenerationDeps, plan: GenerationPlan) {
    this.#deps = deps;
    this.#plan = plan;
    this.#abort = plan.prompts.length > 1 ? new AbortController() : null;
    this.committed = new Promise((resolve, reject) => {
      this.#commit = resolve;
      this.#refuse = reject;
    });
    this.done = this.#runAll();
    // Both promises fail together, and a caller may await only one of them.
    this.committed.catch(() => {});
    this.done.catch(() => {});
  }

  get head(): AnswerHead {
    const { admission } = this.#plan;
    return {
      degraded: admission.degraded,
      deployment: this.#deployment?.id ?? "",
      attempts: this.#attempts,
      queueMs: this.#queueMs,
      ...(admission.snapshot === undefined ? {} : { limits: admission.snapshot }),
    };
  }

  get #signal(): AbortSignal {
    return this.#abort?.signal ?? this.#plan.call.signal;
  }

  async #runAll(): Promise<void> {
    const stopFollowing = this.#followCall();
    try {
      await this.#runPrompts();
      this.#commitNow();
    } catch (thrown) {
      const { signal } = this.#plan.call;
      const error = signal.aborted ? errorOfEnd(signal.reason) : serviceErrorOf(thrown);
      this.#refuse(error);
      throw error;
    } finally {
      this.#cancelCommitTimer?.();
      stopFollowing();
      this.#plan.run.engineEnded();
    }
  }

  #followCall(): () => void {
    const { signal } = this.#plan.call;
    const abort = this.#abort;
    if (abort === null) return () => {};
    const follow = (): void => abort.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    return () => signal.removeEventListener("abort", follow);
  }

  /**
   * The first prompt waits for its slot like any request. The others then run beside and after it, on as many slots as
   * the deployment has, and wait their turn for each: a batch never holds a slot that somebody else waits for.
   */
  async #runPrompts(): Promise<void> {
    const { prompts } = this.#plan;
    const [only] = prompts;
    if (prompts.length === 1 && only !== undefined) return this.#runPrompt(only, false, () => {});
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
    const startHelpers = (deployment: Deployment): void => {
      const count = Math.min(prompts.length, deployment.queue.slots) - 1;
      helpers ??= Array.from({ length: count }, () => runRest(true));
    };
    await runRest(false);
    await Promise.all(helpers ?? []);
    throwIfFailed(failure);
  }

  /** Tries the model's deployments in turn, the least loaded first. */
  async #runPrompt(prompt: Prompt, continuing: boolean, granted: (deployment: Deployment) => void): Promise<void> {
    const deployments = this.#plan.model.byLoad();
    for (const [i, deployment] of deployments.entries()) {
      try {
        await this.#runOn(deployment, prompt, continuing, granted);
        return;
      } catch (thrown) {
        const error = this.#noteFailure(prompt, thrown);
        const last = i === deployments.length - 1;
        if (last || this.#isCommitted || this.#signal.aborted || !mayGoElsewhere(error)) throw error;
        this.#plan.call.log.warn(
          { deployment: deployment.id, error: error.code },
          "deployment failed, trying the next",
        );
      }
    }
  }

  async #runOn(
    deployment: Deployment,
    prompt: Prompt,
    continuing: boolean,
    granted: (deployment: Deployment) => void,
  ): Promise<void> {
    const { call } = this.#plan;
    this.#attempts += 1;
    if (!continuing) call.enter("queued");
    const model = deployment.model ?? (await waitForModel(deployment, this.#deps, this.#signal));
    const who = { account: call.principal.account, keyId: call.principal.keyId };
    const slot = await deployment.queue.acquire(who, this.#signal, continuing);
    try {
      if (!continuing) this.#granted(deployment, model, slot.queueMs);
      granted(deployment);
      await this.#pump(model, prompt);
    } finally {
      slot.release();
    }
  }

  #granted(deployment: Deployment, model: LoadedModel, queueMs: number): void {
    this.#deployment = deployment;
    this.#plan.answeredBy(model);
    this.#queueMs += queueMs;
    this.#plan.call.enter("running");
    this.#plan.call.waited(this.#queueMs);
    if (this.#plan.deltas === "each") {
      this.#cancelCommitTimer ??= this.#deps.clock.after(this.#deps.commitMs, () => this.#commitNow());
    }
  }

  async #pump(model: LoadedModel, prompt: Prompt): Promise<void> {
    const { call, sink } = this.#plan;
    // The spread comes last: with fields after it V8 builds the object by a path that takes 3 µs.
    const request = {
      requestId: call.requestId,
      deadlineAtMs: call.deadlineAtMs,
      cacheKey: call.principal.account,
      deltas: this.#plan.deltas,
      ...prompt.request,
    };
    const calls = new CompleteCalls();
    let finished = 0;
    for await (const event of model.generate(request, this.#signal)) {
      this.#count(prompt, event);
      if (event.type === "accepted" || event.type === "usage") continue;
      if (event.type === "finish") finished += 1;
      const missing = calls.before(event);
      if (missing !== null) await sink(prompt.base + missing.choice, missing);
      const wait = sink(prompt.base + event.choice, event);
      this.#commitNow();
      if (wait !== undefined) await wait;
    }
    if (finished < prompt.request.n) throw new EngineError("upstream_error", "the engine ended before it finished");
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
    this.#commit(this.head);
  }
}

/** A function, because the compiler does not see that a closure assigned the variable. */
function throwIfFailed(failure: { readonly thrown: unknown } | null): void {
  if (failure !== null) throw failure.thrown;
}

/** Whether another deployment may succeed where this one failed. */
function mayGoElsewhere(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 502 || http === 503;
}
