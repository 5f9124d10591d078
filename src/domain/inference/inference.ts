import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Call, ClientLabels } from "../call/call.js";
import type { Answer, StreamAnswer } from "../call/call-context.js";
import type { IdSource } from "../call/ports.js";
import { invariant, ServiceError } from "../call/service-error.js";
import { type Catalog, requireCapability } from "../catalog/catalog.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Capability } from "../catalog/model-definition.js";
import type { Capabilities, GenerateRequest, LoadedModel } from "../engine/engine.js";
import { AnswerIdentity } from "./answer-parts.js";
import { ChatStream, ChatWhole } from "./chat-answer.js";
import { toChatRequest } from "./chat-request.js";
import { CompletionStream, CompletionWhole } from "./completion-answer.js";
import { planPrompts, toCompletionRequests, toEmbedRequest } from "./completion-request.js";
import { collectWhole, streamWhole, type ToGeneration } from "./deliver.js";
import { embed } from "./embed.js";
import { Generation } from "./generation.js";
import { reserveForInputs, reserveForPrompts } from "./reservation.js";
import { type AdmissionDeps, admitRun, type Run } from "./run.js";
import { validateChatCompletion } from "./validate-chat.js";
import { validateCompletion, validateEmbeddings } from "./validate-completion.js";

export interface InferenceDeps extends AdmissionDeps {
  readonly catalog: Catalog;
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
}

/** What differs between chat and text completions before the engine. */
interface RequestKind {
  readonly idPrefix: string;
  readonly capability: Capability;
  readonly model: string;
  validate(): void;
  /** Labels of the valid request, for the request log; null without any. */
  labels(): ClientLabels | null;
  build(caps: Capabilities): readonly GenerateRequest[];
}

/** A request that is validated and admitted, and whose generation can be started. */
interface Prepared {
  readonly run: Run;
  readonly identity: AnswerIdentity;
  /** Choices of the whole request. */
  readonly choices: number;
  readonly toGeneration: ToGeneration;
}

/** Inference from a message to an answer. All methods reject with ServiceError. */
export class Inference {
  readonly #deps: InferenceDeps;

  constructor(deps: InferenceDeps) {
    this.#deps = deps;
  }

  createChatCompletion(params: ChatCompletionParams, call: Call): Promise<Answer<ChatCompletion>> {
    return this.#serve(call, this.#chat(params), ({ run, identity, choices, toGeneration }) =>
      collectWhole(call, run, new ChatWhole(identity, choices, serviceTier(params)), toGeneration),
    );
  }

  streamChatCompletion(params: ChatCompletionParams, call: Call): Promise<StreamAnswer<ChatCompletionChunk>> {
    call.details?.streams();
    return this.#serve(call, this.#chat(params), ({ run, identity, choices, toGeneration }) =>
      streamWhole(this.#deps, call, run, new ChatStream(identity, choices, serviceTier(params)), toGeneration),
    );
  }

  createCompletion(params: CompletionParams, call: Call): Promise<Answer<Completion>> {
    return this.#serve(call, this.#completion(params), ({ run, identity, choices, toGeneration }) =>
      collectWhole(call, run, new CompletionWhole(identity, choices), toGeneration),
    );
  }

  streamCompletion(params: CompletionParams, call: Call): Promise<StreamAnswer<CompletionChunk>> {
    call.details?.streams();
    return this.#serve(call, this.#completion(params), ({ run, identity, toGeneration }) =>
      streamWhole(this.#deps, call, run, new CompletionStream(identity), toGeneration),
    );
  }

  async createEmbeddings(params: EmbeddingParams, call: Call): Promise<Answer<EmbeddingList>> {
    const model = chargeRefusal(call, () => {
      validateEmbeddings(params, this.#deps.limits);
      call.labels = userLabel(params);
      return this.#model(call, params.model, "embeddings");
    });
    const caps = model.caps ?? (await this.#capsOnceLoaded(model, call));
    const request = chargeRefusal(call, () => toEmbedRequest(params, caps));
    const reserve = () => reserveForInputs(model.loaded, request, call.stop);
    return await embed(this.#deps, { call, model, request, ...(await admitRun(this.#deps, call, model, reserve)) });
  }

  /** The path of one request: validate, find the model, admit. `deliver` then runs the engine, answers and settles. */
  async #serve<A>(call: Call, kind: RequestKind, deliver: (prepared: Prepared) => Promise<A>): Promise<A> {
    const { clock, ids, limits } = this.#deps;
    const model = chargeRefusal(call, () => {
      kind.validate();
      call.labels = kind.labels();
      return this.#model(call, kind.model, kind.capability);
    });
    const caps = model.caps ?? (await this.#capsOnceLoaded(model, call));
    const prompts = chargeRefusal(call, () => planPrompts(kind.build(caps), caps));
    const reserve = () => reserveForPrompts(model.loaded, prompts, call.stop);
    const admitting = admitRun(this.#deps, call, model, reserve);
    const { run, admission } = admitting instanceof Promise ? await admitting : admitting;

    const identity = new AnswerIdentity(ids.text(kind.idPrefix), clock.now(), model.id);
    const choices = prompts.reduce((sum, { request }) => sum + request.n, 0);
    call.details?.asked(prompts[0]?.request, choices, identity.id);
    const answeredBy = (loaded: LoadedModel): void => identity.answeredBy(loaded);
    const settings = { clock, commitMs: limits.commitMs };
    const toGeneration: ToGeneration = (reader) =>
      new Generation(settings, { call, run, model, prompts, admission, answeredBy }, reader);
    return deliver({ run, identity, choices, toGeneration });
  }

  #chat(params: ChatCompletionParams): RequestKind {
    return {
      idPrefix: "chatcmpl-",
      capability: "chat",
      model: params.model,
      validate: () => validateChatCompletion(params, this.#deps.limits),
      labels: () => chatLabels(params),
      build: (caps) => [toChatRequest(params, caps)],
    };
  }

  #completion(params: CompletionParams): RequestKind {
    return {
      idPrefix: "cmpl-",
      capability: "completions",
      model: params.model,
      validate: () => validateCompletion(params, this.#deps.limits),
      labels: () => userLabel(params),
      build: (caps) => toCompletionRequests(params, caps),
    };
  }

  #model(call: Call, id: string, capability: Capability): CatalogModel {
    const model = this.#deps.catalog.require(id, call.principal);
    requireCapability(model, capability);
    call.model = model.id;
    return model;
  }

  /** Waits until a deployment of the model is loaded. */
  async #capsOnceLoaded(model: CatalogModel, call: Call): Promise<Capabilities> {
    const deployment = model.byLoad()[0];
    invariant(deployment !== undefined, "a catalog model has a deployment");
    return (await deployment.onceLoaded(call.stop)).caps;
  }
}

/** Notes an error that `check` throws on the call, which charges the caller one request: no engine was asked. */
function chargeRefusal<T>(call: Call, check: () => T): T {
  try {
    return check();
  } catch (thrown) {
    if (thrown instanceof ServiceError) call.refused(thrown);
    throw thrown;
  }
}

/** Without labels, as nearly always, this allocates nothing but the list of metadata keys. */
function chatLabels({ user, safetyIdentifier, promptCacheKey, metadata }: ChatCompletionParams): ClientLabels | null {
  const hasMetadata = Object.keys(metadata).length > 0;
  if (user === undefined && safetyIdentifier === undefined && promptCacheKey === undefined && !hasMetadata) return null;
  return { user, safetyIdentifier, promptCacheKey, ...(hasMetadata ? { metadata } : {}) };
}

function userLabel({ user }: CompletionParams | EmbeddingParams): ClientLabels | null {
  return user === undefined ? null : { user };
}

/** Named in the answer only when the request named one (CHAT-23). */
function serviceTier(params: ChatCompletionParams): string | undefined {
  return params.serviceTier === undefined ? undefined : "default";
}
