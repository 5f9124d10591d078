import type { StreamAnswer } from "../../domain/call/call-context.js";
import type { Call } from "../http/call.js";
import type { Exchange } from "../http/exchange.js";
import { SseWriter, sseDone, sseEvent, sseKeepAliveComment } from "../http/sse.js";
import type { ChunkFrames } from "./answer-parts.js";

/** What is sent on a silent stream (SSE-9). */
export type KeepAlive = "comment" | "chunk" | "off";

const eventStream: readonly string[] = [
  ...["content-type", "text/event-stream; charset=utf-8"],
  ...["cache-control", "no-cache"],
  ...["x-accel-buffering", "no"],
];

/**
 * Writes a committed answer as server-sent events. From here on a failure is an event in the stream, and the stream
 * then ends without its end marker (SERR-1, SERR-4).
 */
export async function streamAnswer<C extends object>(
  call: Call,
  exchange: Exchange,
  items: StreamAnswer<C>["items"],
  frames: ChunkFrames<C>,
  keepAlive: KeepAlive,
): Promise<void> {
  const { signal } = call;
  call.watch();
  exchange.res.writeHead(200, exchange.headers([...eventStream]));
  exchange.res.flushHeaders();
  const sse = new SseWriter(exchange.res, () => call.touched());
  if (keepAlive !== "off") {
    call.whenSilent(() => sse.keepAlive((keepAlive === "chunk" ? frames.keepAlive() : null) ?? sseKeepAliveComment));
  }
  try {
    for await (const item of items) {
      sse.write(frames.frame(item) ?? "");
      if (sse.isBehind) await sse.drained(signal);
      if (exchange.res.destroyed) return;
    }
    sse.end(sseDone);
  } catch (thrown) {
    sse.end(sseEvent(JSON.stringify(exchange.errorToJson(call.toError(thrown)))));
  }
}
