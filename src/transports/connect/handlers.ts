import type { ServerResponse } from "node:http";
import { create, type Message } from "@bufbuild/protobuf";
import { headers } from "../../contract/headers.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import type { RpcHandler, RpcStream } from "../../domain/rpc/rpc-service.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { drained, writeText } from "../http/answer.js";
import type { Call } from "../http/call.js";
import { encodeMessage } from "./messages.js";
import { endEnvelope, enveloped, type RpcForm } from "./protocol.js";

type Streaming = Extract<RpcHandler, { kind: "server_streaming" }>;

/** Calls a handler with the message of a request, and writes its answer. Rejects only while no answer has begun. */
export async function answerCall(handler: RpcHandler, form: RpcForm, call: Call, request: Message): Promise<void> {
  /** Headers of the answer, names and values in turn. */
  const head = ["content-type", form.contentType, headers.requestId, call.requestId];
  const addToHead = (fields: readonly string[]): void => {
    for (const text of fields) head.push(text);
  };
  if (handler.kind === "server_streaming") {
    const stream = await handler.call(request, call.ctx, addToHead);
    call.watch();
    call.res.writeHead(200, head);
    await writeStream(handler, form, call, stream);
    return;
  }
  const { output } = handler.method;
  const response = create(output, await handler.call(request, call.ctx, addToHead));
  writeUnary(call.res, form, head, encodeMessage(form, output, response));
}

/** The end of every unary answer of gRPC-Web. */
const grpcWebEnd = endEnvelope("grpc_web", null);

function writeUnary(res: ServerResponse, form: RpcForm, head: string[], message: Uint8Array | string): void {
  if (res.headersSent || res.destroyed) return;
  const body = form.protocol === "grpc_web" ? Buffer.concat([enveloped(0, message), grpcWebEnd]) : message;
  const bytes = Buffer.byteLength(body);
  head.push("content-length", `${bytes}`);
  res.writeHead(200, head);
  // As text it is sent in one piece with the head.
  writeText(res, typeof body === "string" ? body : latin1Of(body), bytes);
  res.end();
}

function latin1Of({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString("latin1");
}

/**
 * Writes the messages of a stream in envelopes, with backpressure. From here on a failure is the end of the stream, which
 * a slow reader still receives.
 */
async function writeStream(
  { method }: Streaming,
  form: RpcForm,
  call: Call,
  stream: RpcStream<Message>,
): Promise<void> {
  const { res, signal } = call;
  let failure: ServiceError | null = null;
  try {
    for await (const item of stream.items) {
      res.write(enveloped(0, encodeMessage(form, method.output, item)));
      if (res.writableNeedDrain) await drained(res, signal);
      if (res.destroyed) return;
    }
  } catch (thrown) {
    failure = call.failed(thrown);
  }
  if (res.destroyed || form.protocol === "connect_unary") return;
  res.end(endEnvelope(form.protocol, failure && rpcStatus(failure, method), stream.trailers?.()));
}
