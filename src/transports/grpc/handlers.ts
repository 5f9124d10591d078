import type { Message } from "@bufbuild/protobuf";
import type {
  Metadata,
  ServerUnaryCall,
  ServerWritableStream,
  sendUnaryData,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { RpcHandler, RpcHead, RpcService } from "../../domain/rpc/rpc-service.js";
import type { OpenCall } from "./open-call.js";
import type { OpenCalls } from "./open-calls.js";
import { sendStream } from "./send-stream.js";

type Unary = Extract<RpcHandler, { kind: "unary" }>;
type Streaming = Extract<RpcHandler, { kind: "server_streaming" }>;

/** The handlers of a service in grpc-js' form, by lower-camel name. */
export function grpcHandlers({ handlers }: RpcService, calls: OpenCalls): UntypedServiceImplementation {
  return Object.fromEntries(
    handlers.map((handler) => [
      handler.method.localName,
      handler.kind === "unary"
        ? (call: ServerUnaryCall<Message, Message>, done: sendUnaryData<Message>) =>
            void answerUnary(handler, calls.of(call.metadata), call, done)
        : (call: ServerWritableStream<Message, Message>) => void answerStream(handler, calls.of(call.metadata), call),
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
    response = await handler.call(call.request, open.ctx, intoMetadata(head));
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
  try {
    const head = open.head();
    const stream = await handler.call(call.request, open.ctx, intoMetadata(head));
    call.sendMetadata(head);
    await sendStream(call, stream, open);
    open.finishing();
    call.end();
  } catch (thrown) {
    open.finishing();
    // grpc-js' way to end a stream with a status: messages that wait are sent before it.
    call.emit("error", open.failed(thrown));
  }
}

function intoMetadata(head: Metadata): RpcHead {
  return (metadata) => {
    for (const [name, value] of Object.entries(metadata)) head.set(name, value);
  };
}
