import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import { EventQueue } from "../../../../src/engines/llama/llama-model.js";

const text = (outTokens: number): GenEvent => ({ type: "text", choice: 0, text: "x", outTokens });
const neverFails = (): void => {
  throw new Error("the reader did not fail");
};

describe("EventQueue", () => {
  it("passes events on synchronously while the reader takes them synchronously", () => {
    const taken: GenEvent[] = [];
    const queue = new EventQueue((event) => void taken.push(event), neverFails);
    queue.push(text(1));
    queue.push(text(2));
    expect(taken).toEqual([text(1), text(2)]);
    expect(queue.drained).toBeNull();
  });

  it("keeps events in order while the reader applies backpressure", async () => {
    const taken: GenEvent[] = [];
    let go = (): void => {};
    const first = new Promise<void>((resolve) => {
      go = resolve;
    });
    const queue = new EventQueue((event) => {
      taken.push(event);
      return taken.length === 1 ? first : undefined;
    }, neverFails);
    for (const tokens of [1, 2, 3]) queue.push(text(tokens));
    expect(taken).toEqual([text(1)]);
    go();
    await queue.drained;
    expect(taken).toEqual([text(1), text(2), text(3)]);
    expect(queue).toMatchObject({ drained: null, failure: null });
  });

  it.each(["throws", "rejects"])("drops later events and reports the failure once if the reader %s", async (how) => {
    let failures = 0;
    let calls = 0;
    const queue = new EventQueue(
      () => {
        calls += 1;
        if (how === "throws") throw new Error("broken");
        return Promise.reject(new Error("broken"));
      },
      () => {
        failures += 1;
      },
    );
    queue.push(text(1));
    queue.push(text(2));
    await queue.drained;
    queue.push(text(3));
    expect(queue.failure).toMatchObject({ thrown: { message: "broken" } });
    expect([calls, failures]).toEqual([1, 1]);
  });
});
