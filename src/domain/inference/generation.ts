import type { ServiceLimits } from "../../contract/limits.js";
import { type AbortFlag, AbortSource } from "../../lib/abort-source.js";
import type { Call } from "../call/call.js";
import { type AnswerHead, Ended, errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { invariant } from "../call/service-error.js";
import type { Deployment } from "../catalog/deployment.js";
import {
  EngineError,
  type EngineUsage,
  type FinishReason,
  type GenEvent,
  type GenerateRequest,
  type LoadedModel,
} from "../engine/engine.js";
import { serviceErrorOf } from "../engine/engine-error.js";
import type { Slot } from "../routing/waiting-room.js";
import { Attempts, routeOfPrompt } from "./attempts.js";
import { type AnswerIdentity, CompleteCalls } from "./chat-answer.js";
import type { Prompt, RunPlan } from "./chat-request.js";
import { type AdmittedRequest, runWithFallbacks } from "./fallbacks.js";

/** Receives engine events; a returned promise applies backpressure. `choice` counts over the whole request. */
export type EventSink = (choice: number, event: GenEvent) => Promise<void> | undefined;

/** Events of a choice. */
type ChoiceEvent = Exclude<GenEvent, { type: "accepted" | "usage" }>;

export interface GenerationDeps {
  readonly clock: Clock;
  readonly limits: Pick<ServiceLimits, "commitMs">;
}

/** A request that is validated and admitted. */
export interface Prepared extends AdmittedRequest<RunPlan> {
  readonly identity: AnswerIdentity;
}

/** Consumer of a generation. */
export interface GenerationReader {
  readonly sink: EventSink;
  /**
   * Called once: at the first content, `commitMs` after the slot was granted, or at a successful end without content. Null
   * for an answer that is not streamed.
   */
  readonly commit: ((head: AnswerHead) => void) | null;
  /**
   * Discards the events of `count` choices from `first`, because their deployment failed and another one starts over. Null
   * for a stream, whose client has already received the events.
   */
  readonly restart: ((first: number, count: number) => void) | null;
}

/**
 * Runs one admitted request in engines: a slot and a run for each prompt. As long as the client has received no content of a
 * prompt, that prompt may fail over to another deployment, even after the commit. As long as the client has received no
 * content at all, the whole request may fail over to a fallback model.
 */
export class Generation {
  readonly #deps: GenerationDeps;
  readonly #prepared: Prepared;
  readonly #reader: GenerationReader;
  /** Plan for the model that currently runs the request: the requested one or a fallback model. */
  #plan: RunPlan;
  /** Ends the other prompts when one fails; null for a single prompt. */
  #abort: AbortSource | null = null;
  #isCommitted = false;
  /** Whether the reader was given anything. */
  #hasPassedOn = false;
  #hasContent = false;
  #cancelCommitTimer: (() => void) | null = null;
  #queueMs = 0;

  constructor(deps: GenerationDeps, prepared: Prepared, reader: GenerationReader) {
    this.#deps = deps;
    this.#prepared = prepared;
    this.#reader = prepared.run.call.details?.transcript?.copying(reader) ?? reader;
    this.#plan = prepared.plan;
  }

  get head(): AnswerHead {
    return this.#prepared.run.head(this.#queueMs);
  }

  get #call(): Call {
    return this.#prepared.run.call;
  }

  get #signal(): AbortFlag {
    return this.#abort ?? this.#call.stop;
  }

  /**
   * Resolves when all prompts have finished. Rejects with the engine's error, or as soon as the call ends: an engine
   * that ignores its signal is not awaited. Call it once.
   */
  run(): Promise<void> {
    const { stop } = this.#call;
    if (stop.aborted) {
      this.#engineEnded();
      return Promise.reject(errorOfEnd(stop.reason));
    }
    // One promise instead of nested async functions: this is on the path of every request.
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(errorOfEnd(stop.reason));
      stop.addEventListener("abort", onAbort);
      const end = (): void => {
        stop.removeEventListener("abort", onAbort);
        this.#engineEnded();
      };
      this.#runModels().then(
        () => {
          this.#commitNow();
          end();
          resolve();
        },
        (thrown: unknown) => {
          end();
          reject(thrown);
        },
      );
    });
  }

  #engineEnded(): void {
    this.#cancelCommitTimer?.();
    this.#prepared.run.engineEnded();
  }

  #runModels(): Promise<void> {
    const { run, plan, fallbacks, identity } = this.#prepared;
    if (fallbacks === null) return this.#runPrompts();
    const work = (planned: RunPlan): Promise<void> => {
      this.#plan = planned;
      this.#reader.restart?.(0, identity.choices);
      return this.#runPrompts();
    };
    return runWithFallbacks(run, fallbacks, plan, work, () => this.#reader.restart !== null || !this.#hasPassedOn);
  }

  #runPrompts(): Promise<void> {
    const [first, second] = this.#plan.prompts;
    this.#abort = second === undefined ? null : new AbortSource();
    return first !== undefined && second === undefined ? this.#runPrompt(first, false, null) : this.#runBatch();
  }

  /**
   * The first prompt queues like any request. The others then use further slots and queue for each of them, so that a
   * batch never holds a slot that another request waits for.
   */
  async #runBatch(): Promise<void> {
    const { prompts } = this.#plan;
    const { stop } = this.#call;
    const failures: unknown[] = [];
    let next = 0;
    const runRest = async (continuing: boolean): Promise<void> => {
      try {
        for (let prompt = prompts[next++]; prompt !== undefined; prompt = prompts[next++]) {
          await this.#runPrompt(prompt, continuing, startHelpers);
          continuing = true;
        }
      } catch (thrown) {
        failures.push(thrown);
        this.#abort?.abort(new Ended("failed"));
      }
    };
    let helpers: Promise<void>[] | null = null;
    const startHelpers = (): void => {
      const { slots } = this.#prepared.run.model.room;
      helpers ??= Array.from({ length: Math.min(prompts.length, slots) - 1 }, () => runRest(true));
    };
    const onStop = (): void => this.#abort?.abort(stop.reason);
    stop.addEventListener("abort", onStop);
    await runRest(false);
    await Promise.all(helpers ?? []);
    stop.removeEventListener("abort", onStop);
    if (failures.length > 0) throw failures[0];
  }

  /** One function contains the loop over all tries, because each additional await makes every request slower. */
  async #runPrompt(prompt: Prompt, continuing: boolean, onSlot: (() => void) | null): Promise<void> {
    const plan = this.#plan;
    const { run } = this.#prepared;
    const { call } = run;
    const { clock } = this.#deps;
    const attempts = new Attempts(
      run,
      () => routeOfPrompt(run, prompt.request),
      (caps) => plan.can(caps),
    );
    for (;;) {
      let slot: Slot<Deployment> | null = null;
      let hasContent = false;
      const finished: FinishReason[] = [];
      try {
        if (!continuing) call.stage = "queued";
        const next = attempts.next(this.#signal, continuing);
        const granted = next instanceof Promise ? await next : next;
        slot = granted;
        const { model: loaded } = granted.deployment;
        invariant(loaded !== null, "a slot is of a loaded deployment");
        if (!continuing || attempts.count > 1) run.startedOn(granted.deployment);
        if (!continuing) this.#granted(loaded, granted.queueMs);
        onSlot?.();
        const grantedMs = clock.monotonic();
        const calls = new CompleteCalls();
        const request = this.#toRequest(plan.requestOf(prompt, loaded.caps), granted.queueMs);
        await loaded.generate(request, this.#signal, (event) => {
          if (event.type === "finish") finished.push(event.reason);
          else if (event.type !== "accepted" && event.type !== "usage") {
            if (hasContent) attempts.produced(granted, 1);
            else attempts.answered(granted, clock.monotonic() - grantedMs, attempts.tokens >> 1);
            hasContent = true;
          }
          return this.#take(prompt, event, calls);
        });
        if (finished.length < prompt.request.n) {
          throw new EngineError("upstream_error", "the engine ended before it finished");
        }
        call.details?.finishReasons.push(...finished);
        return;
      } catch (thrown) {
        const error = serviceErrorOf(thrown);
        run.tryFailed(slot?.deployment, error);
        const canRestart = !hasContent || this.#reader.restart !== null;
        if (!attempts.failed(slot, error, canRestart, this.#signal)) {
          if (thrown instanceof EngineError && thrown.usage !== null) this.#noteUsage(prompt, thrown.usage);
          throw error;
        }
        this.#restart(prompt);
        call.log.warn({ deployment: slot?.deployment.id, error: error.code }, "deployment failed, trying another one");
      } finally {
        slot?.release();
      }
    }
  }

  /** Discards the tokens and events of a failed try, which are not charged. */
  #restart({ base, request }: Prompt): void {
    this.#prepared.run.tally.restart(base, request.n);
    this.#reader.restart?.(base, request.n);
  }

  #granted(model: LoadedModel, queueMs: number): void {
    this.#prepared.identity.answeredBy(model);
    this.#queueMs += queueMs;
    this.#call.stage = "running";
    this.#call.waited(this.#queueMs);
    if (this.#reader.commit !== null) {
      this.#cancelCommitTimer ??= this.#deps.clock.after(this.#deps.limits.commitMs, () => this.#commitNow());
    }
  }

  /** Completes the engine request in place. */
  #toRequest(request: GenerateRequest, queueMs: number): GenerateRequest {
    const call = this.#call;
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
    this.#hasPassedOn = true;
    const missing = calls.before(event);
    return missing === null ? this.#passOn(prompt, event) : this.#passOnBoth(prompt, missing, event);
  }

  async #passOnBoth(prompt: Prompt, first: ChoiceEvent, second: ChoiceEvent): Promise<void> {
    await this.#reader.sink(prompt.base + first.choice, first);
    await this.#passOn(prompt, second);
  }

  #passOn(prompt: Prompt, event: ChoiceEvent): Promise<void> | undefined {
    if (!this.#hasContent && event.type !== "finish") {
      this.#hasContent = true;
      const nowMs = this.#deps.clock.monotonic();
      this.#call.times.firstContent(nowMs, event.outTokens, this.#reader.commit !== null);
    }
    const wait = this.#reader.sink(prompt.base + event.choice, event);
    this.#commitNow();
    return wait;
  }

  #count(prompt: Prompt, event: GenEvent): void {
    const { tally } = this.#prepared.run;
    if (event.type === "accepted") {
      if (event.fingerprint !== undefined) this.#prepared.identity.answeredBy({ fingerprint: event.fingerprint });
      if (prompt.countsPrompt) tally.prompt(prompt.base, event.promptTokens ?? 0, event.cachedTokens);
    } else if (event.type === "usage") this.#noteUsage(prompt, event, event.reasoningTokens);
    else tally.produced(prompt.base + event.choice, event.outTokens);
  }

  /** Records the usage that the engine reports, whether it is final or not. */
  #noteUsage({ base, request, countsPrompt }: Prompt, usage: EngineUsage, reasoningTokens = 0): void {
    const { tally } = this.#prepared.run;
    if (countsPrompt) tally.prompt(base, usage.promptTokens, usage.cachedTokens, reasoningTokens);
    tally.close(base, request.n, usage.outTokens);
  }

  #commitNow(): void {
    if (this.#isCommitted) return;
    this.#isCommitted = true;
    this.#cancelCommitTimer?.();
    this.#reader.commit?.(this.head);
  }
}
