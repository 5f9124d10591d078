import type { Message } from "@bufbuild/protobuf";
import type {
  ListModelsRequest,
  ListModelsResponse,
  WatchModelsResponse,
} from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import type { CountTokensResponse } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type { Ranking, RerankParams } from "../../../gen/unified/inference/v1/rerank_pb.js";
import { inferenceOperations, type Operation, operationRow } from "../../contract/operations.js";
import { StreamBuffers } from "../../lib/collections.js";
import { type Authenticator, requireAllowed } from "../access/authenticator.js";
import { Call, type CallDeps, type CallFacts, reportEnd } from "../call/call.js";
import type { Answer, StreamAnswer } from "../call/call-context.js";
import { type CallContext, type Caller, Ended, errorOfEnd } from "../call/call-context.js";
import type { LiveRequests } from "../call/live-requests.js";
import { type CallEnd, type CallRecorder, CallTimes, type CallTracer, type Observer } from "../call/observer.js";
import type { Logger } from "../call/ports.js";
import { mayUseModel, nobody, type Principal } from "../call/principal.js";
import { invariant, type ServiceError, toServiceError } from "../call/service-error.js";
import type { Capability, CatalogModel } from "../catalog/catalog-model.js";
import { listModels, watchModels } from "../catalog/model-listing.js";
import type { Core } from "../core.js";
import type { Piece } from "../inference/chat-answer.js";
import { Inference, type InferenceDeps } from "../inference/inference.js";
import type { NativeOriginal } from "../inference/native-chat.js";
import type { Ledger } from "../metering/ledger.js";
import type { RejectionCache } from "../metering/limit-response.js";

export interface ServiceCoreDeps extends InferenceDeps {
  readonly authenticator: Authenticator;
  readonly live: LiveRequests;
  readonly ledger: InferenceDeps["ledger"] & Pick<Ledger, "chargeRefused">;
  readonly rejections: Pick<RejectionCache, "note" | "check">;
  readonly log: Logger;
  readonly observer: Observer;
  /** Null when tracing is off. */
  readonly tracer: CallTracer | null;
  /** Null when the request log is off. */
  readonly recorder: CallRecorder | null;
}

/** Operations that take a slot of a model. */
const capabilityOf: ReadonlyMap<Operation, Capability> = new Map([
  ["create_chat_completion", "chat"],
  ["create_response", "chat"],
  ["create_message", "chat"],
  ["create_completion", "completions"],
  ["create_embeddings", "embeddings"],
  ["rerank", "rerank"],
]);

/** With more models than this, overload is checked only after the body was read, which names the model. */
const gatedModelsMax = 16;

/** A call before authentication. */
type Arrival = Omit<CallFacts, "principal" | "deadlineAtMs">;

/** The core in one process. */
export class ServiceCore implements Core {
  readonly #deps: ServiceCoreDeps;
  readonly #inference: Inference;
  readonly #callDeps: CallDeps;
  #draining = false;

  constructor(deps: ServiceCoreDeps) {
    this.#deps = deps;
    this.#inference = new Inference(deps);
    const { clock, live, log, ledger, limitBook, observer, tracer, recorder } = deps;
    const chargeRefused = ({ requestId, operation, principal, model }: Call): void => {
      const scopes = inferenceOperations.has(operation) ? limitBook.scopesOf(principal, model) : [];
      if (scopes.length === 0) return;
      const { account, keyId } = principal;
      ledger
        .chargeRefused({ requestId, account, keyId, scopes })
        .catch((err: unknown) => log.warn({ request_id: requestId, err }, "rejected request could not be charged"));
    };
    const buffers = new StreamBuffers(deps.limits);
    this.#callDeps = { clock, live, log, buffers, observer, tracer, recorder, chargeRefused };
  }

  /** Starts the drain: new calls are rejected with `server_shutting_down` and watches end; running requests go on. */
  refuseNewCalls(): void {
    this.#draining = true;
    this.#deps.live.abortWatches();
  }

  open(operation: Operation, caller: Caller): CallContext | Promise<CallContext> {
    const { clock } = this.#deps;
    const receivedAtMs = clock.now();
    const arrivedAtMs = clock.monotonic();
    const requestId = caller.requestId ?? this.#deps.ids.requestId();
    const arrival = { requestId, operation, caller, receivedAtMs, arrivedAtMs };
    try {
      if (this.#draining) throw errorOfEnd(new Ended("shutting_down"));
      const principal = this.#identify(operation, caller);
      return principal instanceof Promise ? this.#openAfter(arrival, principal) : this.#admit(arrival, principal);
    } catch (thrown) {
      return Promise.reject(this.#refusal(arrival, thrown));
    }
  }

  #identify(operation: Operation, { authorization, address, browser }: Caller): Principal | Promise<Principal> {
    // Signing in needs no authentication: the client may still send the cookie of an ended session.
    if (operationRow(operation).need === "none") return nobody;
    return this.#deps.authenticator.authenticate(authorization, address, browser?.sessionToken);
  }

  async #openAfter(arrival: Arrival, principal: Promise<Principal>): Promise<Call> {
    try {
      return this.#admit(arrival, await principal);
    } catch (thrown) {
      throw this.#refusal(arrival, thrown);
    }
  }

  #admit(arrival: Arrival, principal: Principal): Call {
    const { requestId, operation, caller, receivedAtMs, arrivedAtMs } = arrival;
    // The client may have disconnected during the look-up of its key.
    if (caller.abort.aborted) throw errorOfEnd(caller.abort.reason);
    requireAllowed(operation, principal, caller.browser);
    // Forwarded calls are checked by the gateway's own cache. That cache is cleared immediately when an administrator resets
    // a window there, the cache of this process slightly later.
    if (caller.isForwarded !== true) this.#checkRejections(operation, principal);
    this.#checkLoad(operation, principal);
    const deadlineAtMs = Math.min(caller.deadlineAtMs, receivedAtMs + this.#deps.limits.deadlineMs);
    const facts = { requestId, operation, principal, caller, receivedAtMs, arrivedAtMs, deadlineAtMs };
    return new Call(this.#callDeps, facts);
  }

  #checkRejections(operation: Operation, principal: Principal): void {
    try {
      this.#deps.rejections.check(operation, principal);
    } catch (refusal) {
      this.#deps.observer.limitHit("requests");
      throw refusal;
    }
  }

  /**
   * Throws `server_is_overloaded` when every model that the caller may use for the operation would reject the request. This
   * avoids reading the body, which names the model.
   */
  #checkLoad(operation: Operation, principal: Principal): void {
    const { catalog } = this.#deps;
    const capability = capabilityOf.get(operation);
    if (capability === undefined || catalog.size > gatedModelsMax) return;
    let mayBeOverloaded = false;
    for (const { room } of catalog.each()) mayBeOverloaded ||= room.isRejecting(principal);
    if (!mayBeOverloaded) return;
    let overloaded: CatalogModel | null = null;
    for (const model of catalog.each()) {
      if (!mayUseModel(principal, model.id) || !model.capabilities.includes(capability)) continue;
      if (model.fallbacks.length > 0 || !model.room.isRejecting(principal)) return;
      overloaded = model;
    }
    overloaded?.room.throwIfRejecting(principal);
  }

  /** Error for a rejected call, which is logged here because no Call exists. */
  #refusal(arrival: Arrival, thrown: unknown): ServiceError {
    const { requestId, operation, caller } = arrival;
    const { log, clock } = this.#deps;
    const { transport, address } = caller;
    const error = toServiceError(thrown);
    if (error !== thrown) log.error({ request_id: requestId, err: thrown }, "request failed");
    const trace_id = reportEnd(this.#deps, refusedEnd(arrival, error, clock.monotonic()));
    log.info({ request_id: requestId, operation, transport, address, error: error.code, trace_id }, "refused");
    return error;
  }

  createChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<Answer<Piece<ChatCompletion>>> {
    return noting(ctx, (call) => this.#inference.createChatCompletion(params, call, native), params);
  }

  streamChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<StreamAnswer<Piece<ChatCompletionChunk>>> {
    return noting(ctx, (call) => this.#inference.streamChatCompletion(params, call, native), params);
  }

  createCompletion(params: CompletionParams, ctx: CallContext): Promise<Answer<Completion>> {
    return noting(ctx, (call) => this.#inference.createCompletion(params, call), params);
  }

  streamCompletion(params: CompletionParams, ctx: CallContext): Promise<StreamAnswer<CompletionChunk>> {
    return noting(ctx, (call) => this.#inference.streamCompletion(params, call), params);
  }

  createEmbeddings(params: EmbeddingParams, ctx: CallContext): Promise<Answer<EmbeddingList>> {
    return noting(ctx, (call) => this.#inference.createEmbeddings(params, call), params);
  }

  rerank(params: RerankParams, ctx: CallContext): Promise<Answer<Ranking>> {
    return noting(ctx, (call) => this.#inference.rerank(params, call), params);
  }

  countTokens(params: ChatCompletionParams, ctx: CallContext): Promise<Answer<CountTokensResponse>> {
    return noting(ctx, (call) => this.#inference.countTokens(params, call), params);
  }

  listModels(request: ListModelsRequest, ctx: CallContext): Promise<ListModelsResponse> {
    return noting(ctx, async (call) => listModels(this.#deps.catalog, call.principal, request));
  }

  getModel(id: string, ctx: CallContext): Promise<Model> {
    return noting(ctx, async (call) => this.#deps.catalog.require(id, call.principal).toMessage());
  }

  watchModels(ctx: CallContext): AsyncIterable<WatchModelsResponse> {
    const call = callOf(ctx);
    call.watching();
    return watchModels(this.#deps.catalog, call.principal, call.signal);
  }
}

/** Outcome of a rejected call. */
function refusedEnd(arrival: Arrival, { code }: ServiceError, nowMs: number): CallEnd {
  const { requestId, operation, caller, receivedAtMs, arrivedAtMs } = arrival;
  const { transport, traceparent } = caller;
  const times = new CallTimes(arrivedAtMs);
  return {
    requestId,
    operation,
    transport,
    model: null,
    why: "failed",
    code,
    stage: "opening",
    clientLeft: code === "client_closed_request",
    usage: null,
    receivedAtMs,
    durationMs: times.sinceArrival(nowMs),
    times,
    route: null,
    traceparent,
    details: null,
  };
}

/** Runs an operation and records its request and its error on the call. Unknown errors become `internal_error`. */
function noting<T>(ctx: CallContext, operate: (call: Call) => Promise<T>, request?: Message): Promise<T> {
  const call = callOf(ctx);
  if (request !== undefined) call.details?.transcript?.asked(request);
  const note = (thrown: unknown): Promise<never> => {
    const error = toServiceError(thrown);
    if (error !== thrown) call.log.error({ err: thrown }, "request failed");
    call.ended("failed", error, null);
    return Promise.reject(error);
  };
  try {
    return operate(call).catch(note);
  } catch (thrown) {
    return note(thrown);
  }
}

function callOf(ctx: CallContext): Call {
  invariant(ctx instanceof Call, "the context was created by open");
  return ctx;
}
