import type { NativeSequence } from "./native-model.js";
import type { StepBatcher } from "./step-batcher.js";

/**
 * The sequences of a context. They are made when the model is loaded and never disposed, because disposing one beside
 * running calls has cost other users of the binding the sequence, or the process.
 */
export class SlotPool {
  readonly #slots: readonly Slot[];
  #clock = 0;

  constructor(sequences: readonly NativeSequence[], turns: StepBatcher) {
    this.#slots = sequences.map((sequence) => new Slot(sequence, turns));
  }

  get busy(): number {
    return this.#slots.filter((slot) => slot.busy).length;
  }

  /**
   * The free slot that knows the longest beginning of the prompt from the same owner, else the one that was not used
   * for the longest time; null when all are busy. The caller frees it. Less than half of both the prompt and what the
   * slot holds counts as nothing: many conversations begin alike, and a new one should not drive out another.
   */
  take(prompt: readonly number[], owner: string): Slot | null {
    let chosen: Slot | null = null;
    let longest = -1;
    for (const slot of this.#slots) {
      if (slot.busy) continue;
      const prefix = slot.known(prompt, owner);
      const known = 2 * (prefix + 1) < Math.min(prompt.length, slot.sequence.tokens.length) ? 0 : prefix;
      if (chosen !== null && (known < longest || (known === longest && slot.usedAt >= chosen.usedAt))) continue;
      chosen = slot;
      longest = known;
    }
    chosen?.occupy(++this.#clock);
    return chosen;
  }
}

/** A slot cannot be used again: the process should end, and another begin with all of its slots. */
export class SlotLost extends Error {
  override readonly name = "SlotLost";
}

/** A sequence, and whose conversation it remembers. */
export class Slot {
  readonly sequence: NativeSequence;
  readonly #turns: StepBatcher;
  #owner: string | null = null;
  #busy = false;
  #usedAt = 0;

  constructor(sequence: NativeSequence, turns: StepBatcher) {
    this.sequence = sequence;
    this.#turns = turns;
  }

  get busy(): boolean {
    return this.#busy;
  }

  /** Place in the order of uses; 0: never used. */
  get usedAt(): number {
    return this.#usedAt;
  }

  occupy(usedAt: number): void {
    this.#busy = true;
    this.#usedAt = usedAt;
  }

  free(): void {
    this.#busy = false;
  }

  /**
   * Tokens of the prompt that need no evaluation; what others said is never reused (SEC-23). One token at least is left
   * over, because an answer begins with the evaluation of a token.
   */
  known(prompt: readonly number[], owner: string): number {
    if (owner !== this.#owner || !this.sequence.keepsPrefixes) return 0;
    return Math.min(commonLength(this.sequence.tokens, prompt), prompt.length - 1);
  }

  /** Cuts the sequence back to what the prompt shares with it. Returns how many tokens that are. */
  async prepare(prompt: readonly number[], owner: string): Promise<number> {
    const known = this.known(prompt, owner);
    await this.#cutTo(known);
    this.#owner = owner;
    return known;
  }

  /** After a failure in the middle of an evaluation, which may have left anything behind. Throws SlotLost. */
  async forget(): Promise<void> {
    this.#owner = null;
    try {
      await this.#turns.step(() => this.sequence.cutTo(0));
    } catch (cause) {
      throw new SlotLost("a sequence cannot be cleared", { cause });
    }
  }

  async #cutTo(tokens: number): Promise<void> {
    if (this.sequence.tokens.length > tokens) await this.#turns.step(() => this.sequence.cutTo(tokens));
  }
}

function commonLength(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length);
  let length = 0;
  while (length < end && a[length] === b[length]) length++;
  return length;
}
