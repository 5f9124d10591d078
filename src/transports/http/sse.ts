import type { Call, Exchange } from "./call.js";

/** Start and end of an event. Its data is one line: clients with their own SSE parser expect exactly this form. */
export const sseEventStart = "data: ";
export const sseEventEnd = "\n\n";

/** The last event of a successful stream. */
export const sseDone = sseEvent("[DONE]");

/** Ends with one line feed, not a blank line: some decoders would dispatch an empty event at a blank line and fail. */
export const sseKeepAliveComment = ": keep-alive\n";

/** An event; `data` must not have a line feed. JSON.stringify writes none. */
export function sseEvent(data: string): string {
  return sseEventStart + data + sseEventEnd;
}

/** Data sent on a silent stream (SSE-9). */
export type KeepAlive = "comment" | "chunk" | "off";

/** Writes the events of one stream in the form of an API family. Each returned text is whole events, or empty. */
export interface StreamFrames<M> {
  /** The events before the first item. Absent: none. */
  begin?(): string;
  /** The events for the next item of the answer. */
  frame(item: M): string;
  /** Work before the events that end a successful stream, such as storing the answer. Absent: none. */
  beforeEnd?(): Promise<void>;
  /** The events that end a successful stream. */
  end(): string;
  /** The events that end a stream after a failure; `error` is the family's JSON. Absent: one event with that JSON. */
  failed?(error: object): string;
  /** An event without effect, for clients that need events instead of comments; null when none can be sent. */
  keepAlive(): string | null;
}

const eventStream: readonly string[] = [
  ...["content-type", "text/event-stream; charset=utf-8"],
  ...["cache-control", "no-cache"],
  ...["x-accel-buffering", "no"],
];

/**
 * Writes an answer that can no longer become an HTTP error, as server-sent events. A failure becomes an event in the
 * stream, which then ends without its end marker (SERR-1, SERR-4).
 */
export async function streamAnswer<M>(
  call: Call,
  exchange: Exchange,
  items: AsyncIterable<M>,
  frames: StreamFrames<M>,
  keepAlive: KeepAlive,
): Promise<void> {
  const { signal, res } = call;
  const sse = call.streamWriter();
  res.writeHead(200, exchange.headers([...eventStream]));
  res.flushHeaders();
  if (keepAlive !== "off") {
    const event = () => (keepAlive === "chunk" ? frames.keepAlive() : null) ?? sseKeepAliveComment;
    call.onSilence = () => sse.keepAlive(event);
  }
  const begun = frames.begin?.();
  if (begun !== undefined) sse.write(begun);
  try {
    for await (const item of items) {
      sse.write(frames.frame(item));
      if (sse.isBehind) await sse.drained(signal);
      if (res.destroyed) return;
    }
    if (frames.beforeEnd !== undefined) await frames.beforeEnd();
    sse.end(frames.end());
  } catch (thrown) {
    const error = exchange.errorToJson(call.toError(thrown));
    sse.end(frames.failed?.(error) ?? sseEvent(JSON.stringify(error)));
  }
}
