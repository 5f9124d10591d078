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
import { sendStream } from "./send-stream.js";

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
