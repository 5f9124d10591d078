import { type CallEnd, CallTimes } from "../../src/domain/call/observer.js";

/**
 * The end of a streamed chat on the model `m`: it waits 5 ms in the queue, gets a slot at 10 ms and the first content at 30 ms;
 * the engine ends at 120 ms after 10 tokens, and the call at 125 ms.
 */
export function chatEnd(changes: Partial<CallEnd> = {}): CallEnd {
  const times = new CallTimes(1_000);
  times.engineBegan(1_010, 5);
  times.firstContent(1_030, 1, true);
  times.engineEnded(1_120);
  return {
    requestId: "req_0",
    operation: "create_chat_completion",
    transport: "openai",
    model: "m",
    why: "completed",
    code: "ok",
    stage: "delivering",
    clientLeft: false,
    usage: { promptTokens: 7, completionTokens: 10, cachedTokens: 4, reasoningTokens: 3 },
    receivedAtMs: 1_700_000_000_000,
    durationMs: 125,
    times,
    route: { deployment: "m/0", attempts: 1, fallbackModel: null },
    traceparent: undefined,
    details: null,
    ...changes,
  };
}

/** The end of a call that never reached an engine. */
export function plainEnd(changes: Partial<CallEnd> = {}): CallEnd {
  return chatEnd({ usage: null, times: new CallTimes(1_000), route: null, durationMs: 1, ...changes });
}
