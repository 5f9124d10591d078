import { constants, type ServerHttp2Stream } from "node:http2";
import type { ServerInterceptingCallInterface } from "@grpc/grpc-js";

/**
 * The HTTP/2 stream under a call. grpc-js offers no way to end one from the server's side, so this reads its private
 * field, here and nowhere else; the tests of refused uploads and of stalled readers fail when the field is gone.
 */
function http2StreamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  return (call as unknown as { stream?: ServerHttp2Stream }).stream;
}

/** Lowers the size limit of a call's messages, as they arrive and decompressed. Reads private fields, too. */
export function limitMessages(call: ServerInterceptingCallInterface, bytesMax: number): void {
  const base = call as unknown as { maxReceiveMessageSize: number; decoder: { maxReadMessageLength: number } };
  base.maxReceiveMessageSize = bytesMax;
  base.decoder.maxReadMessageLength = bytesMax;
}

/** The connection of a call, to tell it from others. */
export function connectionOf(call: ServerInterceptingCallInterface): object {
  return http2StreamOf(call)?.session ?? call;
}

/** Calls `arrived` for every piece of the request, after grpc-js has taken it. */
export function onBytes(call: ServerInterceptingCallInterface, arrived: (bytes: number) => void): void {
  // grpc-js has paused the stream explicitly, so that another listener does not start it.
  http2StreamOf(call)?.on("data", (chunk: Buffer) => arrived(chunk.length));
}

/** Whether nothing can be sent any more, because the client or the connection is gone. */
export function isGone(call: ServerInterceptingCallInterface): boolean {
  const stream = http2StreamOf(call);
  return stream !== undefined && (stream.closed || stream.destroyed);
}

/**
 * Closes a stream whose status was sent while the request is still coming in: grpc-js would leave it half open and take
 * all that the client sends. The status arrives first, and NO_ERROR tells the client that it is the answer.
 */
export function closeHalfOpen(call: ServerInterceptingCallInterface): void {
  setImmediate(() => http2StreamOf(call)?.close(constants.NGHTTP2_NO_ERROR));
}

/** Cuts a stream off; what was not read yet is lost. */
export function cutOff(call: ServerInterceptingCallInterface): void {
  http2StreamOf(call)?.close(constants.NGHTTP2_CANCEL);
}
