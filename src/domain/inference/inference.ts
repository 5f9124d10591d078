import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { CountTokensResponse } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type { Ranking, RerankParams } from "../../../gen/unified/inference/v1/rerank_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { BoundedQueue } from "../../lib/collections.js";
import type { Call } from "../call/call.js";
import { type Answer, type AnswerHead, errorOfEnd, type StreamAnswer } from "../call/call-context.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { ClientLabels } from "../call/observer.js";
import type { IdSource } from "../call/ports.js";
import { ServiceError, toServiceError } from "../call/service-error.js";
import { type Catalog, requireCapability } from "../catalog/catalog.js";
import type { Capability, CatalogModel } from "../catalog/catalog-model.js";
import type { Capabilities, EmbedRequest, RequestDefaults, RerankRequest } from "../engine/engine.js";
import {
  AnswerIdentity,
  answerPrefixes,
  ChatStream,
  type Choice,
  CollectedChoices,
  type Piece,
  type StreamAssembly,
  wholeChat,
} from "./chat-answer.js";
import { buildForAny, RunPlan, toChatRequest } from "./chat-request.js";
import { CompletionStream, toCompletionRequests, validateCompletion, wholeCompletion } from "./completion.js";
import { countTokens, reserveNothing } from "./count-tokens.js";
import { embed, toEmbedRequest, validateEmbeddings } from "./embed.js";
import { type AdmittedRequest, Fallbacks, fallbackUnlessLoaded } from "./fallbacks.js";
import { type EventSink, Generation, type Prepared } from "./generation.js";
import type { BuildInput } from "./input-run.js";
import { NativeOrChatStream, type NativeOriginal, planNativeOrChat } from "./native-chat.js";
import { rerank, toRerankRequest, validateRerank } from "./rerank.js";
import {
  type CountingModel,
  canCount,
  type Reserving,
  reserveForInputs,
  reserveForPrompts,
  reserveForRanking,
} from "./reservation.js";
import { type AdmissionDeps, admitRun, type Run, settleFailure } from "./run.js";
import { chatLabels, userLabel, validateChatCompletion } from "./validate-chat.js";

export interface InferenceDeps extends AdmissionDeps {
  readonly catalog: Catalog;
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
  /** Bounds how many prompts are counted at the same time, shared fairly between accounts. */
  readonly shares: Pick<FairShares, "tokenizing">;
}

/**
 * The parts of the request path before the engine that differ between kinds of requests. `P` is the plan of the engine
 * requests.
 */
interface RequestKind<P> {
  readonly capability: Capability;
  readonly model: string;
  validate(): void;
  /** Labels of the valid request, for the request log; null without any. */
  labels(): ClientLabels | null;
  /** Plans for the capabilities of the deployments, at least one. Throws ServiceError when none can run the request. */
  plan(candidates: readonly Capabilities[], defaults: RequestDefaults | null): P;
  /** True if the request runs without a slot of its model. Absent: it takes a slot. */
  readonly takesNoSlot?: true;
  /** The maximum usage of the request. A loaded model, if there is one, counts its prompt. */
  reserve(model: CountingModel | null, plan: P, stop: AbortFlag): Reserving;
}

/** A request whose answer is generated. */
interface GenerationKind extends RequestKind<RunPlan> {
  readonly idPrefix: string;
  readonly serviceTier: string | undefined;
}

type ChatAnswer = Promise<Answer<Piece<ChatCompletion>>>;
type ChatStreamAnswer = Promise<StreamAnswer<Piece<ChatCompletionChunk>>>;

/** Inference from a message to an answer. All methods reject with ServiceError. */
export class Inference {
  readonly #deps: InferenceDeps;

  constructor(deps: InferenceDeps) {
    this.#deps = deps;
  }

  createChatCompletion(params: ChatCompletionParams, call: Call, native?: NativeOriginal): ChatAnswer {
    const kind = this.#chat(params, native);
    return this.#generate(call, kind, (prepared) => collectAnswer(this.#deps, prepared, wholeChat));
  }

  streamChatCompletion(params: ChatCompletionParams, call: Call, native?: NativeOriginal): ChatStreamAnswer {
    call.details?.streams();
    return this.#generate(call, this.#chat(params, native), (prepared) => {
      const chunks = new ChatStream(prepared.identity);
      return streamAnswer(this.#deps, prepared, native === undefined ? chunks : new NativeOrChatStream(chunks));
    });
  }

  createCompletion(params: CompletionParams, call: Call): Promise<Answer<Completion>> {
    return this.#generate(call, this.#completion(params), (prepared) =>
      collectAnswer(this.#deps, prepared, wholeCompletion),
    );
  }

  streamCompletion(params: CompletionParams, call: Call): Promise<StreamAnswer<CompletionChunk>> {
    call.details?.streams();
    return this.#generate(call, this.#completion(params), (prepared) =>
      streamAnswer(this.#deps, prepared, new CompletionStream(prepared.identity)),
    );
  }

  createEmbeddings(params: EmbeddingParams, call: Call): Promise<Answer<EmbeddingList>> {
    const { limits } = this.#deps;
    const build: BuildInput<EmbedRequest> = (caps) => toEmbedRequest(params, caps);
    const kind: RequestKind<EmbedRequest> = {
      capability: "embeddings",
      model: params.model,
      validate: () => validateEmbeddings(params, limits),
      labels: () => userLabel(params),
      plan: (candidates) => buildForAny(candidates, build).built,
      reserve: reserveForInputs,
    };
    return this.#serve(call, kind, (admitted) => embed(admitted, build, limits.embeddingTokensMax));
  }

  rerank(params: RerankParams, call: Call): Promise<Answer<Ranking>> {
    const build: BuildInput<RerankRequest> = (caps) => toRerankRequest(params, caps);
    const kind: RequestKind<RerankRequest> = {
      capability: "rerank",
      model: params.model,
      validate: () => validateRerank(params),
      labels: () => null,
      plan: (candidates) => buildForAny(candidates, build).built,
      reserve: reserveForRanking,
    };
    return this.#serve(call, kind, (admitted) => rerank(admitted, build, params, this.#deps.ids.text("rerank-")));
  }

  /** Counts the prompt of a chat completion. The request is validated like a chat completion. */
  countTokens(params: ChatCompletionParams, call: Call): Promise<Answer<CountTokensResponse>> {
    const kind = { ...this.#chat(params), reserve: reserveNothing, takesNoSlot: true } as const;
    return this.#serve(call, kind, (admitted) => countTokens(admitted, this.#deps.shares));
  }

  #generate<A>(call: Call, kind: GenerationKind, deliver: (prepared: Prepared) => Promise<A>): Promise<A> {
    return this.#serve(call, kind, ({ run, plan, fallbacks }) => {
      const { clock, ids } = this.#deps;
      const { prompts } = plan;
      const choices = prompts.reduce((sum, { request }) => sum + request.n, 0);
      const id = ids.text(answerPrefixes.get(call.operation) ?? kind.idPrefix);
      const identity = new AnswerIdentity(id, clock.now(), kind.model, choices, kind.serviceTier);
      call.details?.asked(prompts[0]?.request, choices, identity.id);
      return deliver({ run, plan, fallbacks, identity });
    });
  }

  /** The path of one request: validate, find the model, admit. `deliver` then runs the engine, answers and settles. */
  async #serve<P, A>(
    call: Call,
    kind: RequestKind<P>,
    deliver: (admitted: AdmittedRequest<P>) => Promise<A>,
  ): Promise<A> {
    const model = chargeRefusal(call, () => {
      kind.validate();
      call.labels = kind.labels();
      return this.#model(call, kind.model, kind.capability);
    });
    const mayFallBack = model.fallbacks.length > 0 && !call.refusesFallbacks;
    // Before the prompt is counted and the request admitted: a rejection costs little and waits for no store.
    if (!mayFallBack && kind.takesNoSlot !== true) model.room.throwIfRejecting(call.principal);
    const fallbacks = mayFallBack ? new Fallbacks(this.#deps.catalog, call, kind, model) : null;
    const fallback = model.loaded === null ? await fallbackUnlessLoaded(call, model, fallbacks) : null;
    const plan =
      fallback === null ? chargeRefusal(call, () => kind.plan(model.deployedCaps(), model.defaults)) : fallback.plan;
    const counting = (fallback?.model ?? model).loaded;
    const count = () => kind.reserve(counting, plan, call.stop);
    const reserve = () =>
      canCount(counting) ? runInShare(this.#deps.shares.tokenizing, call, call.stop, count) : count();
    const admitting = admitRun(this.#deps, call, model, reserve);
    const run = admitting instanceof Promise ? await admitting : admitting;
    if (fallback !== null) run.continueOn(fallback.model);
    return deliver({ run, plan, fallbacks });
  }

  #chat(params: ChatCompletionParams, native?: NativeOriginal): GenerationKind {
    return {
      idPrefix: "chatcmpl-",
      capability: "chat",
      model: params.model,
      // The answer has a service tier only if the request has one (CHAT-23).
      serviceTier: params.serviceTier === undefined ? undefined : "default",
      validate: () => validateChatCompletion(params, this.#deps.limits),
      labels: () => chatLabels(params),
      plan: (candidates, defaults) =>
        native === undefined
          ? new RunPlan((caps) => [toChatRequest(params, caps, defaults)], candidates)
          : planNativeOrChat(params, native, candidates, defaults),
      reserve: reserveForPlan,
    };
  }

  #completion(params: CompletionParams): GenerationKind {
    return {
      idPrefix: "cmpl-",
      capability: "completions",
      model: params.model,
      serviceTier: undefined,
      validate: () => validateCompletion(params, this.#deps.limits),
      labels: () => userLabel(params),
      plan: (candidates, defaults) => new RunPlan((caps) => toCompletionRequests(params, caps, defaults), candidates),
      reserve: reserveForPlan,
    };
  }

  #model(call: Call, id: string, capability: Capability): CatalogModel {
    const model = this.#deps.catalog.require(id, call.principal);
    requireCapability(model, capability);
    call.model = model.id;
    return model;
  }
}

function reserveForPlan(model: CountingModel | null, { prompts }: RunPlan, stop: AbortFlag) {
  return reserveForPrompts(model, prompts, stop);
}

/**
 * Streams an answer through a bounded queue. A full queue pauses the engine; a reader that leaves it full for `stallMs` ends
 * the request and so frees its slot, unless the reader is a gateway. The last item is sent after the settlement.
 */
function streamAnswer<M>(
  deps: InferenceDeps,
  prepared: Prepared,
  assembly: StreamAssembly<M>,
): Promise<StreamAnswer<M>> {
  const { run } = prepared;
  const { id } = prepared.identity;
  const queue = new BoundedQueue<M>(run.call.buffer);
  const sink: EventSink = (choice, event) => {
    for (const piece of assembly.take(choice, event)) queue.push(piece, assembly.bytesOf(piece));
    return queue.full ? roomOrStall(deps, run.call, queue) : undefined;
  };
  return new Promise((resolve, reject) => {
    const commit = (head: AnswerHead): void => {
      run.answerBegins();
      resolve({ id, head, items: queue, route: () => run.route, promptUsage: () => run.tally.total() });
    };
    const generation = new Generation(deps, prepared, { sink, commit, restart: null });
    // A failure before the commit rejects after its settlement.
    void endStream(run, assembly, generation, queue).then((error) => {
      if (error !== null) reject(error);
    });
  });
}

/** Closes the queue once the request is settled; resolves to its error, if any. Never rejects. */
async function endStream<M>(
  run: Run,
  assembly: StreamAssembly<M>,
  generation: Generation,
  queue: BoundedQueue<M>,
): Promise<ServiceError | null> {
  try {
    return await endWith(run, generation, () => {
      const last = assembly.last(run.tally.total());
      queue.push(last, assembly.bytesOf(last));
      queue.close();
      return null;
    });
  } catch (thrown) {
    const error = toServiceError(thrown);
    queue.close(error);
    return error;
  }
}

/** Collects a whole answer. */
function collectAnswer<M>(
  deps: InferenceDeps,
  prepared: Prepared,
  build: (identity: AnswerIdentity, choices: readonly Choice[], usage: UsageTotal) => M,
): Promise<Answer<M>> {
  const { run, identity } = prepared;
  const collected = new CollectedChoices(identity.choices);
  const sink: EventSink = (choice, event) => {
    collected.take(choice, event);
    return undefined;
  };
  const generation = new Generation(deps, prepared, {
    sink,
    commit: null,
    restart: (first, count) => collected.restart(first, count),
  });
  return endWith(run, generation, () => ({
    head: generation.head,
    body: build(identity, collected.choices, run.tally.total()),
  }));
}

/** Runs the generation, settles and resolves to the result of `finish`. Rejects with the error for the caller. */
async function endWith<R>(run: Run, generation: Generation, finish: () => R): Promise<R> {
  try {
    await generation.run();
  } catch (thrown) {
    throw await settleFailure(run, thrown);
  }
  run.call.stage = "delivering";
  const settling = run.end("completed");
  if (settling !== undefined) await settling;
  return finish();
}

async function roomOrStall<M>(deps: InferenceDeps, call: Call, queue: BoundedQueue<M>): Promise<void> {
  // An ended call has no reader: its engine must not wait before it frees the slot.
  if (call.stop.aborted) return;
  // A gateway watches its own client, whose slow reads arrive here in bursts, and cancels the call when that client stalls.
  const cancelTimer = call.isForwarded ? null : deps.clock.after(deps.limits.stallMs, () => call.abort("stalled"));
  const onAbort = (): void => queue.close(errorOfEnd(call.stop.reason));
  call.stop.addEventListener("abort", onAbort);
  await queue.room();
  cancelTimer?.();
  call.stop.removeEventListener("abort", onAbort);
}

/** Runs `check`, before any engine runs. If it throws, the rejected request is charged as one request. */
function chargeRefusal<T>(call: Call, check: () => T): T {
  try {
    return check();
  } catch (thrown) {
    if (thrown instanceof ServiceError) call.refused(thrown);
    throw thrown;
  }
}
