import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { andThen } from "../../lib/and-then.js";
import type { Answer, StreamAnswer } from "../call/answer.js";
import type { Call } from "../call/call.js";
import type { IdSource } from "../call/ports.js";
import { invariant, ServiceError } from "../call/service-error.js";
import type { Catalog } from "../catalog/catalog.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Capability } from "../catalog/model-definition.js";
import { requireCapability, requireModel } from "../catalog/model-listing.js";
import type { Capabilities, GenerateBase, LoadedModel } from "../engine/engine.js";
import { AnswerIdentity, type StreamAssembly, type WholeAssembly } from "./answer-parts.js";
import { ChatStream, ChatWhole } from "./chat-answer.js";
import { toChatRequest } from "./chat-request.js";
import { CompletionStream, CompletionWhole } from "./completion-answer.js";
import { type Prompt, planPrompts, toCompletionRequests, toEmbedRequest } from "./completion-request.js";
import { collectWhole, streamWhole, type ToGeneration } from "./deliver.js";
import { embed } from "./embed.js";
import { Generation } from "./generation.js";
import { reserveForInputs, reserveForPrompts } from "./reservation.js";
import { type AdmissionDeps, type AdmittedRun, admitRun, type Run } from "./run.js";
import { validateChatCompletion } from "./validate-chat.js";
import { validateCompletion, validateEmbeddings } from "./validate-completion.js";
import { waitForModel } from "./wait-for-model.js";

export interface InferenceDeps extends AdmissionDeps {
  readonly catalog: Catalog;
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
}

/** A request that is validated and admitted, and whose generation can be started. */
interface Prepared {
  readonly run: Run;
  readonly identity: AnswerIdentity;
  /** Choices of the whole request. */
  readonly choices: number;
  readonly toGeneration: ToGeneration;
}

/** What differs between chat and text completions before the engine. */
interface RequestKind {
  readonly idPrefix: string;
  readonly capability: Capability;
  readonly model: string;
  validate(): void;
  build(caps: Capabilities): readonly GenerateBase[];
}

/** Inference from a message to an answer: validate, find the model, admit, queue, run, settle. */
export class Inference {
  readonly #deps: InferenceDeps;

  constructor(deps: InferenceDeps) {
    this.#deps = deps;
  }

  createChatCompletion(params: ChatCompletionParams, call: Call): Promise<Answer<ChatCompletion>> {
    return this.#whole(
      call,
      this.#chat(params),
      ({ identity, choices }) => new ChatWhole(identity, choices, serviceTier(params)),
    );
  }

  streamChatCompletion(params: ChatCompletionParams, call: Call): Promise<StreamAnswer<ChatCompletionChunk>> {
    return this.#stream(
      call,
      this.#chat(params),
      ({ identity, choices }) => new ChatStream(identity, choices, serviceTier(params)),
    );
  }

  createCompletion(params: CompletionParams, call: Call): Promise<Answer<Completion>> {
    return this.#whole(
      call,
      this.#completion(params),
      ({ identity, choices }) => new CompletionWhole(identity, choices),
    );
  }

  streamCompletion(params: CompletionParams, call: Call): Promise<StreamAnswer<CompletionChunk>> {
    return this.#stream(call, this.#completion(params), ({ identity }) => new CompletionStream(identity));
  }

  async createEmbeddings(params: EmbeddingParams, call: Call): Promise<Answer<EmbeddingList>> {
    const model = orRefused(call, () => {
      validateEmbeddings(params, this.#deps.limits);
      return this.#model(call, params.model, "embeddings");
    });
    const caps = model.caps ?? (await this.#capsOnceLoaded(model, call));
    const request = orRefused(call, () => toEmbedRequest(params, caps));
    const reserve = () => reserveForInputs(model.loaded, request, call.stop);
    return await embed(this.#deps, { call, model, request, ...(await admitRun(this.#deps, call, model, reserve)) });
  }

  #chat(params: ChatCompletionParams): RequestKind {
    return {
      idPrefix: "chatcmpl-",
      capability: "chat",
      model: params.model,
      validate: () => validateChatCompletion(params, this.#deps.limits),
      build: (caps) => [toChatRequest(params, caps)],
    };
  }

  #completion(params: CompletionParams): RequestKind {
    return {
      idPrefix: "cmpl-",
      capability: "completions",
      model: params.model,
      validate: () => validateCompletion(params, this.#deps.limits),
      build: (caps) => toCompletionRequests(params, caps),
    };
  }

  /** Throws or rejects with ServiceError. */
  #prepare(call: Call, kind: RequestKind): Prepared | Promise<Prepared> {
    const model = orRefused(call, () => {
      kind.validate();
      return this.#model(call, kind.model, kind.capability);
    });
    return andThen(model.caps ?? this.#capsOnceLoaded(model, call), (caps) => {
      const prompts = orRefused(call, () => planPrompts(kind.build(caps), caps));
      const reserve = () => reserveForPrompts(model.loaded, prompts, call.stop);
      return andThen(admitRun(this.#deps, call, model, reserve), (admitted) =>
        this.#prepared(call, kind.idPrefix, model, prompts, admitted),
      );
    });
  }

  #prepared(
    call: Call,
    idPrefix: string,
    model: CatalogModel,
    prompts: readonly Prompt[],
    { run, admission }: AdmittedRun,
  ): Prepared {
    const { clock, ids, limits } = this.#deps;
    const identity = new AnswerIdentity(ids.text(idPrefix), clock.now(), model.id);
    const settings = { clock, commitMs: limits.commitMs, queueWaitMs: limits.queueWaitMs };
    const answeredBy = (loaded: LoadedModel): void => identity.answeredBy(loaded);
    const plan = { call, run, model, prompts, admission, answeredBy };
    const toGeneration: ToGeneration = (reader) => new Generation(settings, plan, reader);
    const choices = choicesOf(prompts);
    call.details?.asked(prompts[0]?.request, choices, identity.id);
    return { run, identity, choices, toGeneration };
  }

  /** Throws or rejects with ServiceError, like #prepare. */
  #whole<M>(call: Call, kind: RequestKind, toAssembly: (prepared: Prepared) => WholeAssembly<M>): Promise<Answer<M>> {
    const deliver = (prepared: Prepared): Promise<Answer<M>> =>
      collectWhole(call, prepared.run, toAssembly(prepared), prepared.toGeneration);
    const preparing = this.#prepare(call, kind);
    return preparing instanceof Promise ? preparing.then(deliver) : deliver(preparing);
  }

  async #stream<M>(
    call: Call,
    kind: RequestKind,
    toAssembly: (prepared: Prepared) => StreamAssembly<M>,
  ): Promise<StreamAnswer<M>> {
    const { clock, limits } = this.#deps;
    const { streamBufferBytesMax, stallMs } = limits;
    call.details?.streams();
    const prepared = await this.#prepare(call, kind);
    const settings = { clock, streamBufferBytesMax, stallMs };
    return await streamWhole(settings, call, prepared.run, toAssembly(prepared), prepared.toGeneration);
  }

  #model(call: Call, id: string, capability: Capability): CatalogModel {
    const model = requireModel(this.#deps.catalog, id, call.principal);
    requireCapability(model, capability);
    call.chose(model.id);
    return model;
  }

  /** What the model's engine can do, as soon as it is loaded. */
  async #capsOnceLoaded(model: CatalogModel, call: Call): Promise<Capabilities> {
    const deployment = model.byLoad()[0];
    invariant(deployment !== undefined, "a catalog model has a deployment");
    const { clock, limits } = this.#deps;
    return (await waitForModel(deployment, { clock, queueWaitMs: limits.queueWaitMs }, call.stop)).caps;
  }
}

/** Notes on the call what `check` refuses. A refusal has cost no engine anything. */
function orRefused<T>(call: Call, check: () => T): T {
  try {
    return check();
  } catch (thrown) {
    if (thrown instanceof ServiceError) call.refused(thrown);
    throw thrown;
  }
}

function choicesOf(prompts: readonly Prompt[]): number {
  return prompts.reduce((sum, { request }) => sum + request.n, 0);
}

/** Named in the answer only when the request named one (CHAT-23). */
function serviceTier(params: ChatCompletionParams): string | undefined {
  return params.serviceTier === undefined ? undefined : "default";
}
