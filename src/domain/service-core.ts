import type {
  ListModelsRequest,
  ListModelsResponse,
  WatchModelsResponse,
} from "../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../gen/unified/catalog/v1/model_pb.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../gen/unified/inference/v1/embedding_pb.js";
import { type Operation, operations } from "../contract/operations.js";
import type { Authenticator } from "./access/authenticator.js";
import { mayDo, type Principal } from "./access/principal.js";
import { Call, type CallDeps, type CallFacts } from "./call.js";
import { type CallContext, type Caller, errorOfEnd } from "./call-context.js";
import { listModels } from "./catalog/list-models.js";
import { requireModel } from "./catalog/require-model.js";
import { watchModels } from "./catalog/watch-models.js";
import type { Answer, Core, StreamAnswer } from "./core.js";
import { Inference, type InferenceDeps } from "./inference/inference.js";
import type { LiveRequests } from "./live-requests.js";
import type { Logger } from "./ports.js";
import { invariant, ServiceError, toServiceError } from "./service-error.js";

export interface ServiceCoreDeps extends InferenceDeps {
  readonly authenticator: Authenticator;
  readonly live: LiveRequests;
  readonly log: Logger;
}

/** A call whose caller is not known yet. */
type Arrival = Omit<CallFacts, "principal" | "deadlineAtMs">;

/** The service in one process. Doors call it directly. */
export class ServiceCore implements Core {
  readonly #deps: ServiceCoreDeps;
  readonly #inference: Inference;
  readonly #callDeps: CallDeps;
  #draining = false;

  constructor(deps: ServiceCoreDeps) {
    this.#deps = deps;
    this.#inference = new Inference(deps);
    const { clock, live, log, ledger } = deps;
    const chargeRefused = ({ requestId, account, keyId }: Call): void => {
      ledger
        .chargeRefused({ requestId, account, keyId })
        .catch((err: unknown) => log.warn({ request_id: requestId, err }, "a refused request could not be charged"));
    };
    this.#callDeps = { clock, live, log, chargeRefused };
  }

  /** From now on every new call is refused with `server_shutting_down`, and watches end; running requests go on. */
  refuseNewCalls(): void {
    this.#draining = true;
    this.#deps.live.abortWatches();
  }

  open(operation: Operation, caller: Caller): CallContext | Promise<CallContext> {
    const receivedAtMs = this.#deps.clock.now();
    const requestId = caller.requestId ?? this.#deps.ids.requestId();
    const arrival = { requestId, operation, caller, receivedAtMs };
    try {
      if (this.#draining) throw shuttingDown();
      const principal = this.#deps.authenticator.authenticate(caller.authorization);
      return principal instanceof Promise ? this.#openOnceKnown(arrival, principal) : this.#letIn(arrival, principal);
    } catch (thrown) {
      return Promise.reject(this.#refusal(arrival, thrown));
    }
  }

  async #openOnceKnown(arrival: Arrival, principal: Promise<Principal>): Promise<Call> {
    try {
      return this.#letIn(arrival, await principal);
    } catch (thrown) {
      throw this.#refusal(arrival, thrown);
    }
  }

  #letIn({ requestId, operation, caller, receivedAtMs }: Arrival, principal: Principal): Call {
    requireOpen(operation, caller, principal);
    const deadlineAtMs = Math.min(caller.deadlineAtMs, receivedAtMs + this.#deps.limits.deadlineMs);
    return new Call(this.#callDeps, { requestId, operation, principal, caller, receivedAtMs, deadlineAtMs });
  }

  /** What a caller is told who is not let in. Its line in the log is written here: there is no call that would do it. */
  #refusal({ requestId, operation, caller: { transport, address } }: Arrival, thrown: unknown): ServiceError {
    const error = toServiceError(thrown);
    if (error !== thrown) this.#deps.log.error({ request_id: requestId, err: thrown }, "request failed");
    this.#deps.log.info({ request_id: requestId, operation, transport, address, error: error.code }, "refused");
    return error;
  }

  createChatCompletion(params: ChatCompletionParams, ctx: CallContext): Promise<Answer<ChatCompletion>> {
    return noting(ctx, (call) => this.#inference.createChatCompletion(params, call));
  }

  streamChatCompletion(params: ChatCompletionParams, ctx: CallContext): Promise<StreamAnswer<ChatCompletionChunk>> {
    return noting(ctx, (call) => this.#inference.streamChatCompletion(params, call));
  }

  createCompletion(params: CompletionParams, ctx: CallContext): Promise<Answer<Completion>> {
    return noting(ctx, (call) => this.#inference.createCompletion(params, call));
  }

  streamCompletion(params: CompletionParams, ctx: CallContext): Promise<StreamAnswer<CompletionChunk>> {
    return noting(ctx, (call) => this.#inference.streamCompletion(params, call));
  }

  createEmbeddings(params: EmbeddingParams, ctx: CallContext): Promise<Answer<EmbeddingList>> {
    return noting(ctx, (call) => this.#inference.createEmbeddings(params, call));
  }

  listModels(request: ListModelsRequest, ctx: CallContext): Promise<ListModelsResponse> {
    return noting(ctx, async (call) => listModels(this.#deps.catalog, call.principal, request));
  }

  getModel(id: string, ctx: CallContext): Promise<Model> {
    return noting(ctx, async (call) => requireModel(this.#deps.catalog, id, call.principal).toMessage());
  }

  watchModels(ctx: CallContext): AsyncIterable<WatchModelsResponse> {
    const call = callOf(ctx);
    call.enter("watching");
    return watchModels(this.#deps.catalog, call.principal, call.signal);
  }
}

const needText = {
  read: "the scope `read`",
  read_write: "the scope `read_write`",
  administrator: "the administrator's credential",
} as const;

function shuttingDown(): ServiceError {
  return new ServiceError("server_shutting_down", "The service is stopping. Send the request again.", {
    retryAfterMs: 1000,
  });
}

/** Refuses an operation that the principal may not do, and a call that ended while its key was looked up. */
function requireOpen(operation: Operation, { abort }: Caller, principal: Principal): void {
  if (abort.aborted) throw errorOfEnd(abort.reason);
  const { need } = operations[operation];
  if (mayDo(principal, need)) return;
  throw new ServiceError("insufficient_permissions", `This API key may not do this: it needs ${needText[need]}.`);
}

/** Runs an operation and notes on its call how it failed, for the log. Masks what no caller may see. */
function noting<T>(ctx: CallContext, operate: (call: Call) => Promise<T>): Promise<T> {
  const call = callOf(ctx);
  const note = (thrown: unknown): Promise<never> => {
    const error = toServiceError(thrown);
    if (error !== thrown) call.log.error({ err: thrown }, "request failed");
    call.ended("failed", error.code, null);
    return Promise.reject(error);
  };
  try {
    return operate(call).catch(note);
  } catch (thrown) {
    return note(thrown);
  }
}

function callOf(ctx: CallContext): Call {
  invariant(ctx instanceof Call, "the context was made by open");
  return ctx;
}
