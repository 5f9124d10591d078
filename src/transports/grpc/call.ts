import type { DescMethod } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status as statusCode } from "@grpc/grpc-js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { secretOperations } from "../../contract/operations.js";
import {
  type BodyFault,
  type CallContext,
  Ended,
  errorOfBodyFault,
  errorOfEnd,
  errorOfThrown,
  leaving,
  shareOwnerOf,
} from "../../domain/call/call-context.js";
import type { ForwardedCall } from "../../domain/call/forwarded-call.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { refusalText } from "../../domain/metering/limit-response.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { AbortSource } from "../../lib/abort-source.js";
import type { Placed, StreamBuffer } from "../../lib/collections.js";
import type { BodyBudget, UploadWatch } from "../http/body.js";
import { closeHalfOpen, connectionOf, cutOff, dropMessage, isClosed, limitMessages, onBytes } from "./http2.js";

export interface OpenCallDeps {
  readonly limits: Pick<ServiceLimits, "bodyBytesMax" | "bodyRateMin" | "requestTimeoutMs" | "stallMs">;
  /** Shared by all request bodies that are being received. */
  readonly bodies: BodyBudget;
  /** Finds messages that arrive too slowly. */
  readonly uploads: UploadWatch;
  readonly clock: Clock;
  readonly log: Logger;
}

type SendStatus = ServerInterceptingCallInterface["sendStatus"];
type PartialStatus = Parameters<SendStatus>[0];

/**
 * Name of the property that holds the OpenCall: on grpc-js's innermost call object, and on the metadata object that its
 * handler gets. A WeakMap of all calls would make young garbage survive scavenges.
 */
const openCallKey = Symbol("OpenCall");

interface Marked {
  [openCallKey]?: OpenCall;
}

/** The call to which a metadata object was delivered. */
export function openCallOf(metadata: Metadata): OpenCall {
  const open = (metadata as Marked)[openCallKey];
  if (open === undefined) throw new Error("a call reached its handler before it was opened");
  return open;
}

/** Size limit of the message of a forwarded call, as a multiple of the limit for messages of clients. */
const forwardedSize = 3;

const wrappedPrototypes = new WeakSet<object>();

/**
 * Wraps `sendStatus` once, on the prototype of grpc-js's innermost call objects: one function per call would make young
 * garbage survive scavenges. Calls without an OpenCall are not affected.
 */
function wrapStatuses(call: ServerInterceptingCallInterface): void {
  const prototype: { sendStatus: SendStatus } = Object.getPrototypeOf(call);
  if (wrappedPrototypes.has(prototype)) return;
  wrappedPrototypes.add(prototype);
  const send = prototype.sendStatus;
  prototype.sendStatus = function (this: Marked & ServerInterceptingCallInterface, status) {
    const open = this[openCallKey];
    if (open === undefined) send.call(this, status);
    else open.passStatus(status, send);
  };
}

/**
 * One call, from its metadata to its end: tracks how it ends and builds its status.
 *
 * grpc-js signals "cancelled" at the end of every call, also after success. A call counts as cancelled only if it ended
 * before our status was sent.
 */
export class OpenCall implements Placed {
  requestId: string;
  readonly abort = new AbortSource();
  /** The client's deadline as a time of this server's clock; Infinity without one. */
  readonly deadlineAtMs: number;
  /** Index in the list of open calls. */
  place = -1;
  /** A status was sent or is on its way. */
  isAnswered = false;
  readonly #deps: OpenCallDeps;
  readonly #method: DescMethod;
  readonly #call: ServerInterceptingCallInterface;
  #ctx: CallContext | undefined;
  #bytesMax: number;
  #isForwarded = false;
  #requestComplete = false;
  /** How much of the request has arrived. */
  #bytes = 0;
  #endUpload = (): void => {};
  #finishing = false;
  #over = false;
  readonly #cancelUploadTimer: () => void;
  #cancelStallTimer: (() => void) | undefined;

  /** `bytesMax`: size limit of the request's message. */
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
    wrapStatuses(call);
    (call as Marked)[openCallKey] = this;
    this.#cancelUploadTimer = deps.clock.after(deps.limits.requestTimeoutMs, () => {
      this.refuse(new ServiceError("request_timeout", "The request took too long to arrive."));
    });
  }

  get ctx(): CallContext {
    if (this.#ctx === undefined) throw new Error("the call was not opened");
    return this.#ctx;
  }

  /** Bounds what waits for the client to read. */
  get buffer(): StreamBuffer {
    return this.ctx.buffer;
  }

  /**
   * Call when a trusted gateway forwarded the call. The gateway's connection carries many callers, so it gets no share of
   * the byte budget as a connection. The message may be larger than the client's: a translated request is forwarded
   * together with its original.
   */
  isForwarded({ requestId }: Pick<ForwardedCall, "requestId">): void {
    this.requestId = requestId;
    this.#isForwarded = true;
    this.#bytesMax *= forwardedSize;
    limitMessages(this.#call, this.#bytesMax);
  }

  /** Call when the core has accepted the call. False: the client has disconnected in the meantime. */
  opened(ctx: CallContext, metadata: Metadata): boolean {
    if (this.#over) {
      ctx.close();
      return false;
    }
    this.#ctx = ctx;
    (metadata as Marked)[openCallKey] = this;
    // Until the request is complete only this listener observes the signal; afterwards the operation does.
    this.abort.addEventListener("abort", () => this.refuse(errorOfEnd(this.abort.reason)));
    this.#receive(ctx);
    return true;
  }

  /** Charges the message to the budget as it arrives, and watches its rate, until it is complete or the call is over. */
  #receive(ctx: CallContext): void {
    const { bodies, uploads, limits } = this.#deps;
    const charge = bodies.charge(this.#isForwarded ? this : connectionOf(this.#call), shareOwnerOf(ctx));
    const refuse = (fault: BodyFault): void => {
      const bounds = { bytesMax: this.#bytesMax, bytesPerSecondMin: limits.bodyRateMin };
      this.refuse(errorOfBodyFault(fault, bounds, this.abort));
    };
    let isEnded = false;
    onBytes(this.#call, (count) => {
      if (isEnded) return;
      this.#bytes += count;
      const fault = charge.add(count);
      if (fault !== null) refuse(fault);
    });
    const stopWatching = uploads.watch({ bytes: () => this.#bytes, isOver: () => isEnded }, () => refuse("too_slow"));
    this.#endUpload = () => {
      isEnded = true;
      stopWatching();
      charge.release();
    };
  }

  /** Sends an error, but only while the request arrives: once it is complete, its operation sends the status. */
  refuse(thrown: unknown): void {
    if (this.#requestComplete || this.isAnswered || this.#over) return;
    this.isAnswered = true;
    this.#call.sendStatus(this.failed(thrown));
    this.abort.abort(new Ended("failed"));
  }

  /** Call when the whole request has arrived: from then on the operation sends the status. */
  requestComplete(): void {
    this.#requestComplete = true;
    this.#endUpload();
    this.#cancelUploadTimer();
  }

  /** Releases what has arrived of the request, which is not read any more. */
  #dropUpload(): void {
    this.#endUpload();
    dropMessage(this.#call);
  }

  /** Call when the operation has finished. A client must read the rest of the answer within limits.stall. */
  finishing(): void {
    this.#finishing = true;
    this.readerFellBehind();
  }

  /** Call when a status is being sent. grpc-js sends some without a handler, e.g. for a request without a message. */
  statusPassed(): void {
    if (this.#finishing) this.isAnswered = true;
  }

  /** Call when the HTTP/2 stream was closed by either side. */
  over(): void {
    this.#over = true;
    this.#dropUpload();
    this.#cancelUploadTimer();
    this.#cancelStallTimer?.();
    if (!this.isAnswered) this.abort.abort(leaving(this.deadlineAtMs, this.#deps.clock.now()));
    this.#ctx?.close();
  }

  /**
   * Starts the timer of limits.stall: nothing more can be sent until the client reads. A forwarded call has no timer here:
   * its gateway has one for its own client. The gateway reads on only when half of its flow control window is free, so a
   * client that reads slowly would be disconnected here.
   */
  readerFellBehind(): void {
    if (this.#over || this.#isForwarded) return;
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = this.#deps.clock.after(this.#deps.limits.stallMs, () => {
      this.abort.abort(new Ended("stalled"));
      cutOff(this.#call);
    });
  }

  /** Stops the timer of limits.stall: the client has read the queued messages. */
  readerCaughtUp(): void {
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = undefined;
  }

  /** Metadata of a successful response. */
  head(): Metadata {
    const metadata = new Metadata();
    metadata.set(headers.requestId, this.requestId);
    if (secretOperations.has(this.ctx.operation)) metadata.set("cache-control", "no-store");
    return metadata;
  }

  /** Records how the call failed and returns its status. Internal causes go to the log only. */
  failed(thrown: unknown, code?: number): StatusObject {
    const { log } = this.#deps;
    const error = errorOfThrown(thrown, { signal: this.abort, log, requestId: this.requestId });
    this.#ctx?.refused(error);
    const status = grpcStatus(error, this.#method, this.requestId, code);
    const refusal = this.#isForwarded ? refusalText(error) : null;
    if (refusal !== null) status.metadata.set(headers.refusal, refusal);
    return status;
  }

  /**
   * Sends a status of the innermost call with `send`. On a deadline, and on an oversized or unreadable message, grpc-js ends
   * the call by itself with a status without details. The details are added here, so that clients can distinguish code 8
   * for a large message from code 8 for a rate limit.
   */
  passStatus(status: PartialStatus, send: SendStatus): void {
    const call = this.#call;
    if (this.isAnswered) {
      send.call(call, status);
    } else if (!isClosed(call)) {
      send.call(call, this.#explain(status));
      this.abort.abort(new Ended(status.code === statusCode.DEADLINE_EXCEEDED ? "deadline" : "failed"));
    }
    if (this.#requestComplete) return;
    this.#dropUpload();
    closeHalfOpen(call, this.#bytes);
  }

  #explain(status: PartialStatus): PartialStatus {
    switch (status.code) {
      case statusCode.DEADLINE_EXCEEDED:
        // Does not record a failure: the abort that follows records that the deadline has passed.
        return grpcStatus(errorOfEnd(new Ended("deadline")), this.#method, this.requestId);
      case statusCode.RESOURCE_EXHAUSTED: {
        const text = `A message of this RPC may have at most ${this.#bytesMax} bytes.`;
        return this.failed(new ServiceError("request_too_large", text));
      }
      default: {
        // The request is unreadable or, if it was read, the response cannot be sent. The code of grpc-js stays in the status
        // and its details: INTERNAL for bytes that are not a message, UNIMPLEMENTED for a wrong number of messages.
        const { code, details } = status;
        const isOurFault = this.#requestComplete && code !== statusCode.UNIMPLEMENTED;
        const error = new ServiceError(isOurFault ? "internal_error" : "invalid_value", details);
        return { ...this.failed(error, code), details };
      }
    }
  }
}

/** Retry pushback for gRPC libraries (gRFC A6): milliseconds to wait; negative: do not retry. */
const pushbackTrailer = "grpc-retry-pushback-ms";
const detailsTrailer = "grpc-status-details-bin";

/**
 * The status of an error for grpc-js: its metadata and packed details become trailers. Method null: the RPC is unknown.
 * `code` replaces the error's own code. A known wait is sent as pushback. Without one, an error with
 * `x-should-retry: false` has a negative pushback, which tells gRPC libraries not to retry.
 */
export function grpcStatus(
  error: ServiceError,
  method: DescMethod | null,
  requestId: string,
  code?: number,
): StatusObject {
  const { message, details, metadata: advice, ...own } = rpcStatus(error, method);
  const connectError = new ConnectError(message, code ?? own.code, advice, details);
  const packed = setTrailerStatus(new Headers(), connectError).get(detailsTrailer);
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(advice)) metadata.set(name, value);
  const pushback = advice[headers.retryAfterMs] ?? (advice[headers.shouldRetry] === "false" ? "-1" : undefined);
  if (pushback !== undefined) metadata.set(pushbackTrailer, pushback);
  if (packed !== null) metadata.set(detailsTrailer, Buffer.from(packed, "base64"));
  metadata.set(headers.requestId, requestId);
  return { code: code ?? own.code, details: message, metadata };
}
