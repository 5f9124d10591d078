import { describe, expect, it } from "vitest";
import type { NativeSequence } from "../../../../../src/engines/llama/child/native-model.js";
import { type Slot, SlotLost, SlotPool } from "../../../../../src/engines/llama/child/slots.js";
import { StepBatcher } from "../../../../../src/engines/llama/child/steps.js";

/** A sequence that stores tokens without evaluating them. */
class RememberedTokens implements NativeSequence {
  tokens: readonly number[] = [];
  readonly keepsPrefixes: boolean;
  broken = false;

  constructor(keepsPrefixes = true) {
    this.keepsPrefixes = keepsPrefixes;
  }

  async cutTo(tokens: number): Promise<void> {
    if (this.broken) throw new Error("broken");
    this.tokens = this.tokens.slice(0, tokens);
  }

  async evaluate(tokens: readonly number[]): Promise<void> {
    this.tokens = [...this.tokens, ...tokens];
  }

  decode(): never {
    throw new Error("not in these tests");
  }

  score(): never {
    throw new Error("not in these tests");
  }
}

function pool(...sequences: readonly RememberedTokens[]): SlotPool {
  return new SlotPool(sequences, new StepBatcher());
}

/** Runs a prompt on a slot and frees it; returns the slot and the tokens that needed no evaluation. */
async function run(slots: SlotPool, prompt: readonly number[], owner: string): Promise<{ slot: Slot; known: number }> {
  const slot = slots.take(prompt, owner);
  if (slot === null) throw new Error("no slot is free");
  const known = await slot.prepare(prompt, owner);
  await slot.sequence.evaluate(prompt.slice(known));
  slot.busy = false;
  return { slot, known };
}

describe("SlotPool", () => {
  it("takes the slot with the longest prefix of the prompt", async () => {
    const slots = pool(new RememberedTokens(), new RememberedTokens());
    const first = await run(slots, [1, 2, 3, 4], "a");
    const second = await run(slots, [9, 8, 7], "a");
    expect(second.slot).not.toBe(first.slot);
    expect(await run(slots, [1, 2, 3, 5, 6], "a")).toEqual({ slot: first.slot, known: 3 });
    expect(await run(slots, [9, 8, 7], "a")).toEqual({ slot: second.slot, known: 2 });
    expect(second.slot.sequence.tokens).toEqual([9, 8, 7]);
  });

  it("never reuses tokens of another account, and removes them from the slot first (SEC-23)", async () => {
    const sequence = new RememberedTokens();
    const slots = pool(sequence);
    await run(slots, [1, 2, 3, 4], "a");
    const slot = slots.take([1, 2, 3, 4], "b");
    expect(await slot?.prepare([1, 2, 3, 4], "b")).toBe(0);
    expect(sequence.tokens).toEqual([]);
  });

  it("takes the least recently used slot if none has a prefix of the prompt", async () => {
    const slots = pool(new RememberedTokens(), new RememberedTokens());
    const a = await run(slots, [1, 2], "a");
    const b = await run(slots, [3, 4], "b");
    expect((await run(slots, [5, 6], "c")).slot).toBe(a.slot);
    expect((await run(slots, [5, 6], "d")).slot).toBe(b.slot);
  });

  it("does not evict a conversation that only begins like the prompt", async () => {
    const slots = pool(new RememberedTokens(), new RememberedTokens());
    const first = await run(slots, [1, 2, 30, 31, 32, 33, 34], "a");
    const second = await run(slots, [1, 2, 40, 41, 42, 43, 44], "a");
    expect(second.slot).not.toBe(first.slot);
    expect(await run(slots, [1, 2, 30, 31, 32, 33, 34, 35], "a")).toEqual({ slot: first.slot, known: 7 });
  });

  it("returns null if all slots are busy", () => {
    const slots = pool(new RememberedTokens());
    expect(slots.take([1], "a")).not.toBeNull();
    expect(slots.busy).toBe(1);
    expect(slots.take([1], "a")).toBeNull();
  });

  it("reuses nothing if the cache cannot be truncated", async () => {
    const slots = pool(new RememberedTokens(false));
    await run(slots, [1, 2, 3], "a");
    expect((await run(slots, [1, 2, 3], "a")).known).toBe(0);
  });

  it("reports a slot that cannot be cleared", async () => {
    const sequence = new RememberedTokens();
    const { slot } = await run(pool(sequence), [1, 2], "a");
    await slot.clear();
    expect(sequence.tokens).toEqual([]);
    sequence.broken = true;
    await expect(slot.clear()).rejects.toThrow(SlotLost);
  });
});
