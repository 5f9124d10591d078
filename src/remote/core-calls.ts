import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create, type DescMethod, type DescMethodServerStreaming, type DescMethodUnary } from "@bufbuild/protobuf";
import type { Metadata } from "@grpc/grpc-js";
import type { Call } from "../domain/call/call.js";
import { type AnswerRoute, type EndReason, endReasonOf, errorOfEnd, leaving } from "../domain/call/call-context.js";
import { ServiceError, toServiceError } from "../domain/call/service-error.js";
import { LimitError, type RejectionCache } from "../domain/metering/limit-response.js";
import { type ArrivingItems, BoundedQueue } from "../lib/collections.js";
import { grpcDefinition } from "../lib/grpc-definition.js";
import type { CoreLink } from "./core-link.js";
import { CoreTry, type Rpc, type UnaryAnswer } from "./core-try.js";
import type { Cores } from "./cores.js";
import { readRoute, TryFailure } from "./read-answer.js";

export interface RemoteCallDeps {
  readonly cores: Cores;
  /** Secret that signs the forwarded fields; null: they are proven by the client certificate, or not at all. */
  readonly token: string | null;
  /** Caches rejections by limits, so that the gateway itself refuses further calls of these callers for a short time. */
  readonly rejections: Pick<RejectionCache, "note">;
}

/** Maximum of further attempts of a call whose core is unreachable or stopping. */
const repeatsMax = 2;

const rpcs = new Map<DescMethod, Rpc>();

function rpcOf(method: DescMethod): Rpc {
  let rpc = rpcs.get(method);
  if (rpc === undefined) {
    rpc = grpcDefinition(method.parent)[method.localName] as Rpc;
    rpcs.set(method, rpc);
  }
  return rpc;
}

/** The attempts of one call. Each uses a core that was not tried before, if there is one. */
class Tries {
  readonly #cores: Cores;
  readonly #call: Call;
  readonly #tried = new Set<CoreLink>();
  #last: CoreLink | null = null;
  #count = 0;

  constructor(cores: Cores, call: Call) {
    this.#cores = cores;
    this.#call = call;
  }

  /** The core for the next attempt. Waits up to a second while no core is reachable. Rejects with ServiceError. */
  async next(): Promise<CoreLink> {
    if (!this.#cores.isReachable) await this.#cores.reachable();
    if (this.#call.stop.aborted) throw errorOfEnd(this.#call.stop.reason);
    const link = this.#cores.isReachable ? this.#cores.pick(this.#tried) : null;
    if (link === null) throw noCore();
    this.#count += 1;
    this.#tried.add(link);
    this.#last = link;
    return link;
  }

  /** Whether another core may serve the call after this failure. */
  mayRepeat(failure: TryFailure): boolean {
    if (failure.isGone && this.#last !== null) this.#cores.gone(this.#last);
    return failure.isGone && this.#count <= repeatsMax && !this.#call.stop.aborted;
  }
}

function noCore(): ServiceError {
  const sentence = "No core of this service can be reached at the moment. Send the request again.";
  return new ServiceError("server_is_overloaded", sentence, { retryAfterMs: 1_000 });
}

/**
 * Calls an RPC on a core. If the core is unreachable or stopping, the call is repeated on another core, at most twice.
 * Rejects with ServiceError after recording it on the call. The gateway charges nothing: the core has charged the call.
 */
export async function callCore<I extends DescMessage, O extends DescMessage>(
  deps: RemoteCallDeps,
  call: Call,
  method: DescMethodUnary<I, O>,
  fields: MessageInitShape<I>,
): Promise<UnaryAnswer<MessageShape<O>>> {
  try {
    const request = create(method.input, fields);
    const attempt = new CoreTry(call, rpcOf(method), deps.token);
    const tries = new Tries(deps.cores, call);
    for (;;) {
      try {
        return (await attempt.unary(await tries.next(), request)) as UnaryAnswer<MessageShape<O>>;
      } catch (thrown) {
        if (!(thrown instanceof TryFailure) || !tries.mayRepeat(thrown)) throw thrown;
      }
    }
  } catch (thrown) {
    throw failed(deps, call, thrown);
  }
}

/** Records how a call failed, and returns the error for the client. */
function failed({ rejections }: RemoteCallDeps, call: Call, thrown: unknown): ServiceError {
  const error = call.stop.aborted ? errorOfEnd(call.stop.reason) : errorFor(call, thrown);
  if (error instanceof LimitError) rejections.note(error.toRefused());
  if (error.cause !== undefined) call.log.warn({ err: error.cause, error: error.code }, "a core failed a call");
  call.ended(endOf(call, error), error, null);
  return error;
}

/** How a failed call ended. A core's timer for the deadline may fire slightly before the gateway's timer. */
function endOf({ stop, deadlineAtMs }: Call, { code }: ServiceError): EndReason {
  if (stop.aborted) return endReasonOf(stop);
  const isLate = code === "upstream_timeout" && leaving(deadlineAtMs, Date.now()).why === "deadline";
  return isLate ? "deadline" : "failed";
}

function errorFor({ principal }: Call, thrown: unknown): ServiceError {
  const error = toServiceError(thrown instanceof TryFailure ? thrown.error : thrown);
  if (error.code !== "invalid_api_key" || principal.kind !== "administrator") return error;
  const sentence =
    "The cores do not accept this credential, which the gateway accepts: sessions need core.token or core.tls, and tokens " +
    "the same UIS_ADMIN_TOKEN on gateways and cores.";
  return new ServiceError("insufficient_permissions", sentence, { cause: error });
}

/** A stream of a core that has sent the head of its answer. */
export interface CoreStream<M> {
  /** Metadata of the core's answer. */
  readonly metadata: Metadata;
  readonly items: ArrivingItems<M>;
  readonly route: () => AnswerRoute;
}

/** Converts the messages of a stream to items, which are buffered for a slow reader up to the bound of its call. */
export interface ItemForm<O, M> {
  readonly read: (message: O) => M;
  /** Estimated memory of an item in bytes. */
  readonly sizeOf: (item: M) => number;
}

/** The form of messages that are passed on unchanged: updates about models and upstreams, which are few and small. */
export function unchanged<M>(): ItemForm<M, M> {
  return { read: (message) => message, sizeOf: () => 1024 };
}

/**
 * Streams an RPC of a core. Resolves when the core has sent the head of its answer. Until the first message a core that is
 * unreachable or stopping is replaced by another one, at most twice. Later failures are thrown by `items`. Rejects like
 * `callCore`.
 */
export async function streamFromCore<I extends DescMessage, O extends DescMessage, M>(
  deps: RemoteCallDeps,
  call: Call,
  method: DescMethodServerStreaming<I, O>,
  fields: MessageInitShape<I>,
  form: ItemForm<MessageShape<O>, M>,
): Promise<CoreStream<M>> {
  try {
    const request = create(method.input, fields);
    const attempt = new CoreTry(call, rpcOf(method), deps.token);
    return await new Promise((resolve, reject) => {
      new StreamRelay(deps, attempt, call, form as ItemForm<object, M>, { resolve, reject }).run(request);
    });
  } catch (thrown) {
    throw failed(deps, call, thrown);
  }
}

interface Settle<M> {
  resolve(stream: CoreStream<M>): void;
  reject(thrown: unknown): void;
}

/** Relays the messages of one stream from the core that serves it to the reader. */
class StreamRelay<M> {
  readonly #deps: RemoteCallDeps;
  readonly #attempt: CoreTry;
  readonly #tries: Tries;
  readonly #call: Call;
  readonly #form: ItemForm<object, M>;
  readonly #settle: Settle<M>;
  readonly #queue: BoundedQueue<M>;
  #route: AnswerRoute | null = null;
  #isCommitted = false;
  #hasContent = false;

  constructor(deps: RemoteCallDeps, attempt: CoreTry, call: Call, form: ItemForm<object, M>, settle: Settle<M>) {
    this.#deps = deps;
    this.#attempt = attempt;
    this.#tries = new Tries(deps.cores, call);
    this.#call = call;
    this.#form = form;
    this.#settle = settle;
    this.#queue = new BoundedQueue(call.buffer);
  }

  run(request: object): void {
    this.#tries.next().then(
      (link) => {
        this.#attempt.stream(link, request, {
          committed: (head) => this.#committed(head),
          took: (message) => this.#took(message),
          ended: (trailers) => {
            this.#routed(trailers);
            this.#queue.close();
          },
          failed: (failure) => {
            if (!this.#hasContent && this.#tries.mayRepeat(failure)) this.run(request);
            else this.#failed(failure);
          },
        });
      },
      (thrown: unknown) => this.#failed(thrown),
    );
  }

  #committed(metadata: Metadata): void {
    this.#routed(metadata);
    if (this.#isCommitted) return;
    this.#isCommitted = true;
    const route = (): AnswerRoute => this.#route ?? readRoute(metadata);
    this.#settle.resolve({ metadata, items: this.#queue, route });
  }

  /** Records the route. Trailers name it only for operations that have one. */
  #routed(metadata: Metadata): void {
    const route = readRoute(metadata);
    if (route.attempts === 0) return;
    this.#route = route;
    this.#call.route = route;
  }

  #took(message: object): Promise<void> | undefined {
    this.#hasContent = true;
    const item = this.#form.read(message);
    this.#queue.push(item, this.#form.sizeOf(item));
    return this.#queue.full ? this.#queue.room() : undefined;
  }

  #failed(thrown: unknown): void {
    if (this.#isCommitted) this.#queue.close(failed(this.#deps, this.#call, thrown));
    else this.#settle.reject(thrown);
  }
}
