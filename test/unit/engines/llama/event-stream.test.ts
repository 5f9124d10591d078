import { describe, expect, it } from "vitest";
import { EngineError, type GenEvent } from "../../../../src/domain/engine/engine.js";
import { EventStream } from "../../../../src/engines/llama/llama-model.js";

const text = (outTokens: number): GenEvent => ({ type: "text", choice: 0, text: "x", outTokens });

describe("EventStream", () => {
  it("returns waiting events before the end, and throws the error once", async () => {
    const stream = new EventStream(() => {});
    stream.push(text(1));
    stream.push(text(2));
    stream.end(new EngineError("internal", "broken"));
    expect(await stream.next()).toEqual({ value: text(1), done: false });
    expect(await stream.next()).toEqual({ value: text(2), done: false });
    await expect(stream.next()).rejects.toThrow("broken");
    expect(await stream.next()).toEqual({ value: undefined, done: true });
  });

  it("resolves a waiting read with an event, and at the end", async () => {
    const stream = new EventStream(() => {});
    const first = stream.next();
    stream.push(text(1));
    expect(await first).toEqual({ value: text(1), done: false });
    const last = stream.next();
    stream.end(null);
    expect(await last).toEqual({ value: undefined, done: true });
  });

  it("calls back when the reader stops early, and only then", async () => {
    let departures = 0;
    const left = new EventStream(() => {
      departures += 1;
    });
    left.push(text(1));
    for await (const _ of left) break;
    expect(departures).toBe(1);
    const read = new EventStream(() => {
      departures += 1;
    });
    read.end(null);
    for await (const _ of read) throw new Error("there is no event");
    await read.return();
    expect(departures).toBe(1);
  });
});
