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
import { Call, type CallDeps } from "./call.js";
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

  async open(operation: Operation, caller: Caller): Promise<CallContext> {
    const receivedAtMs = this.#deps.clock.now();
    const requestId = caller.requestId ?? this.#deps.ids.requestId();
    try {
      const principal = await this.#pass(operation, caller);
      const deadlineAtMs = Math.min(caller.deadlineAtMs, receivedAtMs + this.#deps.limits.deadlineMs);
      return new Call(this.#callDeps, { requestId, operation, principal, caller, receivedAtMs, deadlineAtMs });
    } catch (thrown) {
      const error = toServiceError(thrown);
      if (error !== thrown) this.#deps.log.error({ request_id: requestId, err: thrown }, "request failed");
      const { transport, address } = caller;
      this.#deps.log.info({ request_id: requestId, operation, transport, address, error: error.code }, "refused");
      throw error;
    }
  }

  /** Authenticates, authorizes and passes the gate. */
  async #pass(operation: Operation, caller: Caller): Promise<Principal> {
    if (this.#draining) {
      throw new ServiceError("server_shutting_down", "The service is stopping. Send the request again.", {
        retryAfterMs: 1000,
      });
    }
    const principal = await this.#deps.authenticator.authenticate(caller.authorization);
    const { signal } = caller.abort;
    if (signal.aborted) throw errorOfEnd(signal.reason);
    const { need } = operations[operation];
    if (mayDo(principal, need)) return principal;
    throw new ServiceError("insufficient_permissions", `This API key may not do this: it needs ${needText[need]}.`);
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

/** Runs an operation and notes on its call how it failed, for the log. Masks what no caller may see. */
async function noting<T>(ctx: CallContext, operate: (call: Call) => Promise<T>): Promise<T> {
  const call = callOf(ctx);
  try {
    return await operate(call);
  } catch (thrown) {
    const error = toServiceError(thrown);
    if (error !== thrown) call.log.error({ err: thrown }, "request failed");
    call.ended("failed", error.code, null);
    throw error;
  }
}

function callOf(ctx: CallContext): Call {
  invariant(ctx instanceof Call, "the context was made by open");
  return ctx;
}
