import { describe, expect, it } from "vitest";
import { StepBatcher } from "../../../../../src/engines/llama/child/steps.js";

/** A step that the test ends. */
function openStep(): { readonly run: () => Promise<void>; end(): void; readonly begun: boolean } {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const step = {
    begun: false,
    run: () => {
      step.begun = true;
      return ended;
    },
    end: () => end(),
  };
  return step;
}

const nextTask = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function tasks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await nextTask();
}

describe("StepBatcher", () => {
  it("starts the steps of all calls together, and the next ones when all are done", async () => {
    const batcher = new StepBatcher();
    const [slow, quick, next] = [openStep(), openStep(), openStep()];
    const both = [batcher.step(slow.run), batcher.step(quick.run)];
    await tasks(2);
    expect([slow.begun, quick.begun]).toEqual([true, true]);
    quick.end();
    await both[1];
    const third = batcher.step(next.run);
    await tasks(3);
    expect(next.begun).toBe(false);
    slow.end();
    await tasks(3);
    expect(next.begun).toBe(true);
    next.end();
    await Promise.all([...both, third]);
  });

  it("runs one long step and all short ones in a batch, and calls take turns with long steps", async () => {
    const batcher = new StepBatcher();
    const [short, first, second, third] = [openStep(), openStep(), openStep(), openStep()];
    const long = { isLong: true };
    const all = [batcher.step(first.run, long), batcher.step(second.run, long), batcher.step(short.run)];
    await tasks(2);
    expect([first.begun, second.begun, short.begun]).toEqual([true, false, true]);
    all.push(batcher.step(third.run, long));
    first.end();
    short.end();
    await tasks(3);
    expect([second.begun, third.begun]).toEqual([true, false]);
    second.end();
    await tasks(3);
    expect(third.begun).toBe(true);
    third.end();
    await Promise.all(all);
  });

  it("starts the next batch after a step that fails", async () => {
    const batcher = new StepBatcher();
    await expect(batcher.step(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await batcher.step(async () => "fine")).toBe("fine");
  });

  it("calls an end callback once after a batch, when the next batch has begun", async () => {
    const batcher = new StepBatcher();
    const seen: string[] = [];
    await batcher.step(async () => {
      batcher.atEnd(() => seen.push("after the first"));
      seen.push("first");
    });
    await batcher.step(async () => {
      seen.push("second");
      await tasks(2);
    });
    await batcher.step(async () => {
      await tasks(2);
    });
    expect(seen).toEqual(["first", "second", "after the first"]);
  });

  it("calls an end callback if no batch follows", async () => {
    const batcher = new StepBatcher();
    await new Promise<void>((resolve) => batcher.atEnd(resolve));
  });
});
