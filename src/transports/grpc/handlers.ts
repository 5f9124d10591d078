import { once } from "node:events";
import type { Writable } from "node:stream";
import { create, type DescService, fromBinary, type Message } from "@bufbuild/protobuf";
import {
  Metadata,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type ServiceError, toServiceError } from "../../domain/call/service-error.js";
import { checkMessageBounds } from "../../domain/rpc/message-bounds.js";
import type { RpcHandler, RpcHead, RpcService, RpcStream } from "../../domain/rpc/rpc-service.js";
import { grpcDefinition } from "../../lib/grpc-definition.js";
import { type OpenCall, openCallOf } from "./call.js";

type Unary = Extract<RpcHandler, { kind: "unary" }>;
type Streaming = Extract<RpcHandler, { kind: "server_streaming" }>;

/**
 * The handlers of a service in the form of grpc-js, by lower-camel name. The handler gets the same metadata object that the
 * interceptor delivered to grpc-js, so the object identifies the call.
 */
export function grpcHandlers({ handlers }: RpcService): UntypedServiceImplementation {
  return Object.fromEntries(
    handlers.map((handler) => [
      handler.method.localName,
      handler.kind === "unary"
        ? (call: ServerUnaryCall<Message, Message>, done: sendUnaryData<Message>) =>
            void answerUnary(handler, openCallOf(call.metadata), call, done)
        : (call: ServerWritableStream<Message, Message>) => void answerStream(handler, openCallOf(call.metadata), call),
    ]),
  );
}

async function answerUnary(
  handler: Unary,
  open: OpenCall,
  call: ServerUnaryCall<Message, Message>,
  done: sendUnaryData<Message>,
): Promise<void> {
  const head = open.head();
  let response: Message;
  try {
    response = create(handler.method.output, await handler.call(call.request, open.ctx, intoMetadata(head)));
  } catch (thrown) {
    open.finishing();
    done(open.failed(thrown));
    return;
  }
  call.sendMetadata(head);
  open.finishing();
  done(null, response);
}

async function answerStream(
  handler: Streaming,
  open: OpenCall,
  call: ServerWritableStream<Message, Message>,
): Promise<void> {
  let stream: RpcStream<Message> | undefined;
  try {
    const head = open.head();
    stream = await handler.call(call.request, open.ctx, intoMetadata(head));
    call.sendMetadata(head);
    await sendStream(call, stream, open);
    open.finishing();
    const trailers = new Metadata();
    setAll(trailers, stream.trailers?.());
    call.end(trailers);
  } catch (thrown) {
    open.finishing();
    // Ends the stream with a status in grpc-js; queued messages are sent before it.
    const status = open.failed(thrown);
    setAll(status.metadata, stream?.trailers?.());
    call.emit("error", status);
  }
}

function intoMetadata(head: Metadata): RpcHead {
  return (metadata) => setAll(head, metadata);
}

/** `fields`: names and values in turn. */
function setAll(metadata: Metadata, fields: readonly string[] = []): void {
  for (let i = 0; i < fields.length; i += 2) metadata.set(fields[i] ?? "", fields[i + 1] ?? "");
}

type SendingCall = Pick<OpenCall, "abort" | "readerFellBehind" | "readerCaughtUp">;

/**
 * Sends all items of a stream with backpressure. While the client does not read, further items are merged into one message;
 * at the first item that cannot be merged, no more are requested. Rejects when the items fail or the call is aborted.
 */
export async function sendStream<O>(call: Writable, stream: RpcStream<O>, open: SendingCall): Promise<void> {
  const source = new Lookahead(stream.items);
  for (let next = await source.take(); !next.done; ) {
    if (call.write(next.value)) {
      next = await source.take();
    } else {
      open.readerFellBehind();
      next = await nextAfterDrain(call, source, stream.merge, open.abort.signal);
      open.readerCaughtUp();
    }
  }
}

/** Waits until the call accepts messages again. Resolves with the merged items that arrived meanwhile, or the next item. */
async function nextAfterDrain<O>(
  call: Writable,
  source: Lookahead<O>,
  merge: RpcStream<O>["merge"],
  signal: AbortSignal,
): Promise<IteratorResult<O>> {
  const drained = once(call, "drain", { signal }).then(() => null);
  let merged: IteratorResult<O> | null = null;
  for (;;) {
    const seen = await Promise.race([drained, source.peek()]);
    if (seen === null) break;
    const longer: IteratorResult<O> | null = seen.done ? null : joined(merged, seen.value, merge);
    if (longer === null) {
      await drained;
      break;
    }
    merged = longer;
    source.drop();
  }
  return merged ?? source.take();
}

function joined<O>(
  merged: IteratorResult<O> | null,
  next: O,
  merge: RpcStream<O>["merge"],
): IteratorResult<O, never> | null {
  if (merged === null) return { done: false, value: next };
  const value = merge?.(merged.value, next) ?? null;
  return value === null ? null : { done: false, value };
}

/** An iterator whose next result can be peeked at. */
class Lookahead<O> {
  readonly #source: AsyncIterator<O>;
  #next: Promise<IteratorResult<O>> | null = null;

  constructor(items: AsyncIterable<O>) {
    this.#source = items[Symbol.asyncIterator]();
  }

  peek(): Promise<IteratorResult<O>> {
    this.#next ??= this.#source.next();
    return this.#next;
  }

  drop(): void {
    this.#next = null;
  }

  take(): Promise<IteratorResult<O>> {
    const next = this.peek();
    this.#next = null;
    return next;
  }
}

/** Replaces a message that is out of bounds: grpc-js has the same status for all errors that its decoder throws. */
export class RefusedMessage implements Message {
  readonly $typeName = "refused";
  readonly error: ServiceError;

  constructor(error: ServiceError) {
    this.error = error;
  }
}

/**
 * The grpc-js definition of a service. Checks each request against the bounds of messages before it is decoded. Unknown
 * fields are dropped, because each one that is kept would become an object.
 */
export function boundedDefinition(service: DescService, limits: ServiceLimits): ServiceDefinition {
  return grpcDefinition(service, (desc, bytes) => {
    try {
      checkMessageBounds(desc, bytes, limits);
    } catch (thrown) {
      return new RefusedMessage(toServiceError(thrown));
    }
    return fromBinary(desc, bytes, { readUnknownFields: false });
  });
}
