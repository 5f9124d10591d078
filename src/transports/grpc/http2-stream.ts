import { constants, type ServerHttp2Stream } from "node:http2";
import type { ServerInterceptingCallInterface } from "@grpc/grpc-js";

/**
 * The HTTP/2 stream under a call. grpc-js cannot end one from the server's side, so this reads its private
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

/** The connection of a call, as an identity. */
export function connectionOf(call: ServerInterceptingCallInterface): object {
  return http2StreamOf(call)?.session ?? call;
}

/** Calls `arrived` for every piece of the request, after grpc-js has taken it. */
export function onBytes(call: ServerInterceptingCallInterface, arrived: (bytes: number) => void): void {
  // grpc-js has paused the stream explicitly, so that another listener does not start it.
  http2StreamOf(call)?.on("data", (chunk: Buffer) => arrived(chunk.length));
}

/** Whether the client or the connection is gone, so that nothing can be sent. */
export function isGone(call: ServerInterceptingCallInterface): boolean {
  const stream = http2StreamOf(call);
  return stream !== undefined && (stream.closed || stream.destroyed);
}

/**
 * Closes a stream whose status was sent while the request still arrives: grpc-js would leave it half open and read
 * all that the client sends. The status arrives first; NO_ERROR marks it as the response.
 */
export function closeHalfOpen(call: ServerInterceptingCallInterface): void {
  setImmediate(() => http2StreamOf(call)?.close(constants.NGHTTP2_NO_ERROR));
}

/** Resets a stream; unread data is lost. */
export function cutOff(call: ServerInterceptingCallInterface): void {
  http2StreamOf(call)?.close(constants.NGHTTP2_CANCEL);
}
