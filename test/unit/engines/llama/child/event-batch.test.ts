import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { GenEvent } from "../../../../../src/domain/engine/engine.js";
import { EventBatch } from "../../../../../src/engines/llama/child/event-batch.js";
import type { FromChild } from "../../../../../src/engines/llama/protocol/protocol.js";

const text = (outTokens: number): GenEvent => ({ type: "text", choice: 0, text: "a", outTokens });
const accepted: GenEvent = { type: "accepted", promptTokens: 1, cachedTokens: 0 };

/** An EventBatch, the calls and tokens of each message that it sent, and `endTurn`, which ends a batch of steps. */
function batchOf(): { readonly batch: EventBatch; readonly sent: string[][]; endTurn(): void } {
  const sent: string[][] = [];
  const atEnd: (() => void)[] = [];
  const send = (message: FromChild): void => {
    if (message.type !== "events") return;
    sent.push(message.events.map(([call, event]) => `${call}:${"outTokens" in event ? event.outTokens : 0}`));
  };
  const batch = new EventBatch(send, { atEnd: (callback) => atEnd.push(callback) });
  return {
    batch,
    sent,
    endTurn: () => {
      for (const callback of atEnd.splice(0)) callback();
    },
  };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("EventBatch", () => {
  it("sends the beginning of each answer at the end of its batch", () => {
    const { batch, sent, endTurn } = batchOf();
    batch.add(1, accepted);
    endTurn();
    batch.add(1, text(1));
    batch.add(2, accepted);
    endTurn();
    batch.add(1, text(2));
    batch.add(2, text(1));
    endTurn();
    expect(sent).toEqual([["1:0"], ["1:1", "2:0"], ["1:2", "2:1"]]);
  });

  it("sends all events of short batches, at most every 15 ms", () => {
    const { batch, sent, endTurn } = batchOf();
    for (let token = 1; token <= 12; token++) {
      batch.add(1, text(token));
      endTurn();
      vi.advanceTimersByTime(5);
    }
    vi.advanceTimersByTime(15);
    expect(sent.slice(0, 3)).toEqual([["1:1"], ["1:2", "1:3"], ["1:4", "1:5", "1:6"]]);
    expect(sent.flat()).toEqual(Array.from({ length: 12 }, (_, i) => `1:${i + 1}`));
  });

  it("sends all events at the end of a batch of steps that took 15 ms", () => {
    const { batch, sent, endTurn } = batchOf();
    for (const token of [1, 2, 3]) {
      batch.add(1, text(token));
      endTurn();
      vi.advanceTimersByTime(20);
      expect(sent).toHaveLength(token);
    }
  });

  it("sends all events when a call ends, each only once", () => {
    const { batch, sent, endTurn } = batchOf();
    batch.add(1, text(1));
    endTurn();
    batch.add(1, text(2));
    batch.flush();
    endTurn();
    vi.advanceTimersByTime(100);
    expect(sent).toEqual([["1:1"], ["1:2"]]);
  });
});
