import { Metadata, type MethodDefinition, type StatusObject, status as statusCode } from "@grpc/grpc-js";
import { headers } from "../contract/headers.js";
import type { Call } from "../domain/call/call.js";
import { errorOfEnd } from "../domain/call/call-context.js";
import { forwardedText } from "../domain/call/forwarded-call.js";
import { signText } from "../lib/crypto.js";
import type { CoreLink } from "./core-link.js";
import { coreGone, readFailure, TryFailure } from "./read-answer.js";

/** The definition of one RPC in the form of grpc-js. */
export type Rpc = MethodDefinition<object, object>;

export interface UnaryAnswer<M = object> {
  readonly message: M;
  readonly head: Metadata;
}

/** Callbacks of a streamed call. Each attempt ends with `ended` or `failed`; the other functions are called before. */
export interface StreamReader {
  /** The core has sent the head of its answer. */
  committed(head: Metadata): void;
  /** A message has arrived. A returned promise pauses the stream until it resolves. */
  took(message: object): Promise<void> | undefined;
  ended(trailers: Metadata): void;
  failed(failure: TryFailure): void;
}

/** Calls one core on behalf of a client, and forwards all data of the client's call that a core needs. */
export class CoreTry {
  readonly #call: Call;
  readonly #rpc: Rpc;
  readonly #token: string | null;

  /** `token`: secret that signs the forwarded fields; null: they are proven by the client certificate, or not at all. */
  constructor(call: Call, rpc: Rpc, token: string | null) {
    this.#call = call;
    this.#rpc = rpc;
    this.#token = token;
  }

  /** Resolves with the answer; rejects with a TryFailure. */
  unary(link: CoreLink, request: object): Promise<UnaryAnswer> {
    const { path, requestSerialize, responseDeserialize } = this.#rpc;
    return new Promise((resolve, reject) => {
      let head = new Metadata();
      let answer: object | undefined;
      const { client, end, onCall } = this.#begin(link, (failure) => reject(failure));
      const call = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        this.#metadata(),
        { deadline: this.#call.deadlineAtMs },
        (_error, message) => {
          answer = message;
        },
      );
      onCall(call);
      call.on("metadata", (metadata) => {
        head = metadata;
      });
      call.on("status", (status) => {
        if (!end(status)) return;
        if (answer === undefined) reject(new TryFailure(coreGone(new Error("no message")), false));
        else resolve({ message: answer, head });
      });
    });
  }

  stream(link: CoreLink, request: object, reader: StreamReader): void {
    const { path, requestSerialize, responseDeserialize } = this.#rpc;
    const { client, end, onCall } = this.#begin(link, (failure) => reader.failed(failure));
    const call = client.makeServerStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      this.#metadata(),
      { deadline: this.#call.deadlineAtMs },
    );
    onCall(call);
    let trailers: Metadata | null = null;
    let isRead = false;
    const finish = (): void => {
      if (isRead && trailers !== null) reader.ended(trailers);
    };
    call.on("metadata", (head) => reader.committed(head));
    call.on("data", (message: object) => {
      const pause = reader.took(message);
      if (pause === undefined) return;
      call.pause();
      void pause.then(() => call.resume());
    });
    call.on("end", () => {
      isRead = true;
      finish();
    });
    call.on("error", () => {
      // The event `status` follows and has the same data.
    });
    call.on("status", (status) => {
      if (!end(status)) return;
      trailers = status.metadata;
      finish();
    });
  }

  /** Takes a connection for a call to the core, and cancels that call when the client's call ends or the core is lost. */
  #begin(link: CoreLink, failed: (failure: TryFailure) => void) {
    const { stop } = this.#call;
    let running: { cancel(): void } | null = null;
    let isOver = false;
    const cancel = (failure: TryFailure): void => {
      if (isOver) return;
      close(true);
      running?.cancel();
      failed(failure);
    };
    const onAbort = (): void => cancel(new TryFailure(errorOfEnd(stop.reason), false));
    const lost = (): void => cancel(new TryFailure(coreGone(new Error("the core does not answer")), true));
    const { client, release } = link.take({ lost, place: 0 });
    stop.addEventListener("abort", onAbort);
    function close(isCancelled: boolean): void {
      isOver = true;
      stop.removeEventListener("abort", onAbort);
      release(isCancelled);
    }
    return {
      client,
      onCall(call: { cancel(): void }): void {
        running = call;
      },
      /** Whether the call succeeded. A failure is reported to `failed`. */
      end(status: StatusObject): boolean {
        if (isOver) return false;
        // grpc-js resets the stream of a call at its deadline.
        close(status.code === statusCode.DEADLINE_EXCEEDED);
        if (status.code === statusCode.OK) return true;
        failed(readFailure(status));
        return false;
      },
    };
  }

  #metadata(): Metadata {
    const { caller, requestId, operation, address } = this.#call;
    const { authorization, transport, browser, clientRequestId, retryCount, traceparent } = caller;
    const metadata = new Metadata();
    const set = (name: string, value: string | undefined): void => {
      if (value !== undefined) metadata.set(name, value);
    };
    set("authorization", authorization);
    set(headers.clientRequestId, clientRequestId);
    set(headers.stainlessRetryCount, retryCount);
    set(headers.traceparent, traceparent);
    if (caller.refusesFallbacks === true) metadata.set(headers.fallback, "off");
    const sessionToken = authorization === undefined ? (browser?.sessionToken ?? null) : null;
    const forwarded = forwardedText({ requestId, operation, transport, address, sessionToken }, Date.now());
    metadata.set(headers.forwarded, signText(this.#token, forwarded, `${this.#rpc.path}\n${authorization ?? ""}`));
    return metadata;
  }
}
