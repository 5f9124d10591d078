import type { DescMethod } from "@bufbuild/protobuf";
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status as statusCode } from "@grpc/grpc-js";
import type { BodyFault } from "../../contract/body-fault.js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { bodyOwnerOf, errorOfBodyFault } from "../../domain/call/body-fault.js";
import {
  type CallContext,
  Ended,
  type EndReason,
  errorOfEnd,
  errorOfThrown,
  leaving,
} from "../../domain/call/call-context.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { AbortSource } from "../../lib/abort-source.js";
import type { BodyBudget, UploadWatch } from "../http/body-limits.js";
import { closeHalfOpen, connectionOf, cutOff, isGone, limitMessages, onBytes } from "./http2-stream.js";
import { grpcStatusObject } from "./status.js";

export interface OpenCallDeps {
  readonly limits: Pick<ServiceLimits, "bodyBytesMax" | "bodyRateMin" | "requestTimeoutMs" | "stallMs">;
  /** Shared by all request bodies that are being received. */
  readonly bodies: BodyBudget;
  /** Finds messages that arrive too slowly. */
  readonly uploads: UploadWatch;
  readonly clock: Clock;
  readonly log: Logger;
}

type PartialStatus = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/**
 * One call from its metadata to its end: who ended it, and what the client is told.
 *
 * grpc-js signals "cancelled" at the end of every call, good ones too. So a call counts as left only when it ended
 * before our status was handed over.
 */
export class OpenCall {
  readonly requestId: string;
  readonly abort = new AbortSource();
  /** The client's, on our clock; Infinity when it set none. */
  readonly deadlineAtMs: number;
  readonly #deps: OpenCallDeps;
  readonly #method: DescMethod;
  readonly #call: ServerInterceptingCallInterface;
  #ctx: CallContext | undefined;
  readonly #bytesMax: number;
  #requestComplete = false;
  #endUpload = (): void => {};
  #finishing = false;
  #answered = false;
  #over = false;
  #cancelUploadTimer: (() => void) | undefined;
  #cancelStallTimer: (() => void) | undefined;

  /** `bytesMax`: of the request's message. */
  constructor(
    deps: OpenCallDeps,
    method: DescMethod,
    call: ServerInterceptingCallInterface,
    requestId: string,
    bytesMax: number,
  ) {
    this.#deps = deps;
    this.#bytesMax = bytesMax;
    limitMessages(call, bytesMax);
    this.#method = method;
    this.#call = call;
    this.requestId = requestId;
    this.deadlineAtMs = Number(call.getDeadline());
    this.#explainOwnStatuses();
    this.#cancelUploadTimer = deps.clock.after(deps.limits.requestTimeoutMs, () => {
      this.refuse(new ServiceError("request_timeout", "The request took too long to arrive."));
    });
  }

  get ctx(): CallContext {
    if (this.#ctx === undefined) throw new Error("the call was not opened");
    return this.#ctx;
  }

  /** A status was sent or is on its way. */
  get isAnswered(): boolean {
    return this.#answered;
  }

  /** The core let the call in. False when the client had left meanwhile. */
  opened(ctx: CallContext): boolean {
    if (this.#over) {
      ctx.close();
      return false;
    }
    this.#ctx = ctx;
    // While the request comes in nobody else looks at the signal; afterwards the operation does.
    this.abort.addEventListener("abort", () => this.refuse(errorOfEnd(this.abort.reason)));
    this.#receive(ctx);
    return true;
  }

  /** Charges the message to the budget as it arrives, and watches its rate, until it is complete or the call is over. */
  #receive(ctx: CallContext): void {
    const { bodies, uploads, limits } = this.#deps;
    const charge = bodies.charge(connectionOf(this.#call), bodyOwnerOf(ctx));
    const refuse = (fault: BodyFault): void => {
      const bounds = { bytesMax: this.#bytesMax, bytesPerSecondMin: limits.bodyRateMin };
      this.refuse(errorOfBodyFault(fault, bounds, this.abort));
    };
    let bytes = 0;
    let isEnded = false;
    onBytes(this.#call, (count) => {
      if (isEnded) return;
      bytes += count;
      const fault = charge.add(count);
      if (fault !== null) refuse(fault);
    });
    const stopWatching = uploads.watch({ bytes: () => bytes, isOver: () => isEnded }, () => refuse("too_slow"));
    this.#endUpload = () => {
      isEnded = true;
      stopWatching();
      charge.release();
    };
  }

  /** Answers with an error unless the request is complete: then its operation answers. */
  refuse(thrown: unknown): void {
    if (this.#requestComplete || this.#answered || this.#over) return;
    this.#answered = true;
    this.#call.sendStatus(this.failed(thrown));
    this.abort.abort(new Ended("failed"));
  }

  /** The whole request is here: from now on its operation answers. */
  requestComplete(): void {
    this.#requestComplete = true;
    this.#endUpload();
    this.#cancelUploadTimer?.();
  }

  /** The operation has said its last word; the reader must take it within limits.stall. */
  finishing(): void {
    this.#finishing = true;
    this.waitsForReader();
  }

  /** A status is on its way. grpc-js sends some without asking a handler, e.g. for a request without a message. */
  statusPassed(): void {
    if (this.#finishing) this.#answered = true;
  }

  /** The stream is closed, whoever closed it. */
  over(): void {
    this.#over = true;
    this.#endUpload();
    this.#cancelUploadTimer?.();
    this.#cancelStallTimer?.();
    if (!this.#answered) this.abort.abort(leaving(this.deadlineAtMs, this.#deps.clock.now()));
    this.#ctx?.close();
  }

  /** The reader must take something before more can be sent: from now on it has limits.stall. */
  waitsForReader(): void {
    if (this.#over) return;
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = this.#deps.clock.after(this.#deps.limits.stallMs, () => {
      this.abort.abort(new Ended("stalled"));
      cutOff(this.#call);
    });
  }

  /** The reader took what waited. */
  readerTook(): void {
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = undefined;
  }

  /** Metadata of a good answer. */
  head(): Metadata {
    const metadata = new Metadata();
    metadata.set(headers.requestId, this.requestId);
    return metadata;
  }

  /** Notes how the call failed. Returns what the client is told of it; what it may not see goes to the log. */
  failed(thrown: unknown, code?: number): StatusObject {
    const { log } = this.#deps;
    const error = errorOfThrown(thrown, { signal: this.abort, log, requestId: this.requestId });
    this.#ctx?.refused(error);
    return this.#statusOf(error, code);
  }

  #statusOf(error: ServiceError, code?: number): StatusObject {
    const parts = rpcStatus(error, this.#method);
    const status = grpcStatusObject(code === undefined ? parts : { ...parts, code });
    status.metadata.set(headers.requestId, this.requestId);
    return status;
  }

  /**
   * grpc-js ends calls by itself on a deadline, an oversized or an unreadable message, on the innermost call and without
   * details. Seen here, its statuses get ours, so that 8 for a large message can be told from 8 for a rate limit.
   */
  #explainOwnStatuses(): void {
    const call = this.#call;
    const send = call.sendStatus.bind(call);
    call.sendStatus = (status) => {
      if (this.#answered) {
        send(status);
      } else if (!isGone(call)) {
        send(this.#explain(status));
        this.abort.abort(new Ended(status.code === statusCode.DEADLINE_EXCEEDED ? "deadline" : "failed"));
      }
      if (!this.#requestComplete) closeHalfOpen(call);
    };
  }

  #explain(status: PartialStatus): PartialStatus {
    switch (status.code) {
      case statusCode.DEADLINE_EXCEEDED:
        // Not noted as a failure: the abort that follows says that it was the deadline.
        return this.#statusOf(errorOfEnd(new Ended("deadline")));
      case statusCode.RESOURCE_EXHAUSTED: {
        const text = `A message of this RPC may have at most ${this.#bytesMax} bytes.`;
        return this.failed(new ServiceError("request_too_large", text));
      }
      default:
        // gRPC's own code, in the status and in its details: INTERNAL for bytes that are no message, UNIMPLEMENTED for
        // a wrong number of messages.
        return {
          ...this.failed(errorOfOwnStatus(status, this.#requestComplete), status.code),
          details: status.details,
        };
    }
  }
}

/** What a status of grpc-js means: that the request cannot be read, or once it was, that the answer cannot be sent. */
function errorOfOwnStatus({ code, details }: PartialStatus, requestComplete: boolean): ServiceError {
  const isOurFault = requestComplete && code !== statusCode.UNIMPLEMENTED;
  return new ServiceError(isOurFault ? "internal_error" : "invalid_value", details);
}

/** The calls of our services between their metadata and their end. */
export class OpenCalls {
  readonly #live = new Set<OpenCall>();
  /** grpc-js hands the metadata object that was delivered to the handler as it is. */
  readonly #byMetadata = new WeakMap<Metadata, OpenCall>();

  add(call: OpenCall): void {
    this.#live.add(call);
  }

  remove(call: OpenCall): void {
    this.#live.delete(call);
  }

  bind(metadata: Metadata, call: OpenCall): void {
    this.#byMetadata.set(metadata, call);
  }

  of(metadata: Metadata): OpenCall {
    const call = this.#byMetadata.get(metadata);
    if (call === undefined) throw new Error("a call reached its handler unopened");
    return call;
  }

  /** Ends all calls; each client gets the status that belongs to the reason. */
  abortAll(why: EndReason): void {
    for (const call of [...this.#live]) call.abort.abort(new Ended(why));
  }
}
