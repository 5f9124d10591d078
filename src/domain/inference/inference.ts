import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type AdmittedRun, admitRun } from "../admit-run.js";
import type { Call } from "../call.js";
import type { Catalog } from "../catalog/catalog.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Capability } from "../catalog/model-definition.js";
import { requireCapability, requireModel } from "../catalog/require-model.js";
import type { Answer, StreamAnswer } from "../core.js";
import type { Ledger } from "../ledger.js";
import type { Clock, IdSource } from "../ports.js";
import { invariant, ServiceError } from "../service-error.js";
import { AnswerIdentity } from "./answer-identity.js";
import type { StreamAssembly, WholeAssembly } from "./assembly.js";
import { toChatRequest } from "./chat-request.js";
import { ChatStream } from "./chat-stream.js";
import { ChatWhole } from "./chat-whole.js";
import { toCompletionRequests } from "./completion-request.js";
import { CompletionStream } from "./completion-stream.js";
import { CompletionWhole } from "./completion-whole.js";
import { collectWhole, type StartGeneration, streamWhole } from "./deliver.js";
import { embed } from "./embed.js";
import { toEmbedRequest } from "./embedding-request.js";
import type { Capabilities, EmbedRequest, LoadedModel } from "./engine.js";
import type { GenerateBase } from "./generate-base.js";
import { Generation, type Prompt } from "./generation.js";
import { planPrompts } from "./plan-prompts.js";
import { validateChatCompletion } from "./validate-chat.js";
import { validateCompletion } from "./validate-completion.js";
import { validateEmbeddings } from "./validate-embedding.js";
import { waitForModel } from "./wait-for-model.js";

export interface InferenceDeps {
  readonly catalog: Catalog;
  readonly ledger: Ledger;
  readonly limits: ServiceLimits;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** A request that is validated and admitted, and whose generation can be started. */
interface Prepared extends AdmittedRun {
  readonly call: Call;
  readonly identity: AnswerIdentity;
  /** Choices of the whole request. */
  readonly choices: number;
  /** `joined` when nobody reads along. */
  readonly start: (deltas: "each" | "joined") => StartGeneration;
}

interface Checked {
  readonly model: CatalogModel;
  readonly prompts: readonly Prompt[];
  readonly choices: number;
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

  async createChatCompletion(params: ChatCompletionParams, call: Call): Promise<Answer<ChatCompletion>> {
    const prepared = await this.#prepareChat(params, call);
    return this.#whole(prepared, new ChatWhole(prepared.identity, prepared.choices, serviceTier(params)));
  }

  async streamChatCompletion(params: ChatCompletionParams, call: Call): Promise<StreamAnswer<ChatCompletionChunk>> {
    const prepared = await this.#prepareChat(params, call);
    return this.#stream(prepared, new ChatStream(prepared.identity, prepared.choices, serviceTier(params)));
  }

  async createCompletion(params: CompletionParams, call: Call): Promise<Answer<Completion>> {
    const prepared = await this.#prepareCompletion(params, call);
    return this.#whole(prepared, new CompletionWhole(prepared.identity, prepared.choices));
  }

  async streamCompletion(params: CompletionParams, call: Call): Promise<StreamAnswer<CompletionChunk>> {
    const prepared = await this.#prepareCompletion(params, call);
    return this.#stream(prepared, new CompletionStream(prepared.identity));
  }

  async createEmbeddings(params: EmbeddingParams, call: Call): Promise<Answer<EmbeddingList>> {
    const { request, model } = await this.#checkEmbeddings(params, call);
    return embed(this.#deps, { call, model, request, ...(await admitRun(this.#deps, call, model)) });
  }

  async #checkEmbeddings(params: EmbeddingParams, call: Call): Promise<{ model: CatalogModel; request: EmbedRequest }> {
    try {
      validateEmbeddings(params, this.#deps.limits);
      const model = this.#model(call, params.model, "embeddings");
      return { model, request: toEmbedRequest(params, model.caps ?? (await this.#capsOnceLoaded(model, call))) };
    } catch (thrown) {
      if (thrown instanceof ServiceError) call.refused(thrown);
      throw thrown;
    }
  }

  #prepareChat(params: ChatCompletionParams, call: Call): Promise<Prepared> {
    return this.#prepare(call, {
      idPrefix: "chatcmpl-",
      capability: "chat",
      model: params.model,
      validate: () => validateChatCompletion(params, this.#deps.limits),
      build: (caps) => [toChatRequest(params, caps)],
    });
  }

  #prepareCompletion(params: CompletionParams, call: Call): Promise<Prepared> {
    return this.#prepare(call, {
      idPrefix: "cmpl-",
      capability: "completions",
      model: params.model,
      validate: () => validateCompletion(params, this.#deps.limits),
      build: (caps) => toCompletionRequests(params, caps),
    });
  }

  async #prepare(call: Call, kind: RequestKind): Promise<Prepared> {
    const { model, prompts, choices } = await this.#check(call, kind);
    const admitted = await admitRun(this.#deps, call, model);
    const { clock, ids, limits } = this.#deps;
    const identity = new AnswerIdentity(ids.text(kind.idPrefix), clock.now(), model.id);
    const settings = { clock, commitMs: limits.commitMs, queueWaitMs: limits.queueWaitMs };
    const answeredBy = (loaded: LoadedModel): void => identity.answeredBy(loaded);
    const start =
      (deltas: "each" | "joined"): StartGeneration =>
      (sink) =>
        new Generation(settings, { call, model, prompts, deltas, sink, answeredBy, ...admitted });
    return { call, identity, choices, start, ...admitted };
  }

  /** All that can be wrong with a request. A refusal here has cost no engine anything. */
  async #check(call: Call, kind: RequestKind): Promise<Checked> {
    try {
      kind.validate();
      const model = this.#model(call, kind.model, kind.capability);
      const caps = model.caps ?? (await this.#capsOnceLoaded(model, call));
      const requests = kind.build(caps);
      return { model, prompts: planPrompts(requests, caps), choices: requests.reduce((sum, { n }) => sum + n, 0) };
    } catch (thrown) {
      if (thrown instanceof ServiceError) call.refused(thrown);
      throw thrown;
    }
  }

  #whole<M>({ call, run, start }: Prepared, assembly: WholeAssembly<M>): Promise<Answer<M>> {
    return collectWhole(call, run, assembly, start("joined"));
  }

  #stream<M>({ call, run, start }: Prepared, assembly: StreamAssembly<M>): Promise<StreamAnswer<M>> {
    const { clock, limits } = this.#deps;
    const { streamBufferBytesMax, stallMs } = limits;
    return streamWhole({ clock, streamBufferBytesMax, stallMs }, call, run, assembly, start("each"));
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
    return (await waitForModel(deployment, { clock, queueWaitMs: limits.queueWaitMs }, call.signal)).caps;
  }
}

/** Named in the answer only when the request named one (CHAT-23). */
function serviceTier(params: ChatCompletionParams): string | undefined {
  return params.serviceTier === undefined ? undefined : "default";
}
