import type { NativeSequence } from "./native-model.js";
import type { StepBatcher } from "./steps.js";

/**
 * The sequences of a context. They are created when the model is loaded and never disposed: disposing one while calls
 * run has cost other users of the binding their sequence or their process.
 */
export class SlotPool {
  readonly #slots: readonly Slot[];
  #uses = 0;

  constructor(sequences: readonly NativeSequence[], batcher: StepBatcher) {
    this.#slots = sequences.map((sequence) => new Slot(sequence, batcher));
  }

  get busy(): number {
    return this.#slots.filter((slot) => slot.busy).length;
  }

  /**
   * The free slot with the longest prefix of the prompt and the same owner (cache key), else the least recently used one;
   * null if all are busy. The caller sets `busy` to false at the end. A prefix shorter than half of both the prompt and the
   * slot's tokens counts as none: many conversations begin alike, and a new one should not evict another.
   */
  take(prompt: readonly number[], owner: string): Slot | null {
    let chosen: Slot | null = null;
    let longest = -1;
    for (const slot of this.#slots) {
      if (slot.busy) continue;
      const prefix = slot.knownTokens(prompt, owner);
      const known = 2 * (prefix + 1) < Math.min(prompt.length, slot.sequence.tokens.length) ? 0 : prefix;
      if (chosen !== null && (known < longest || (known === longest && slot.lastUse >= chosen.lastUse))) continue;
      chosen = slot;
      longest = known;
    }
    if (chosen === null) return null;
    chosen.busy = true;
    chosen.lastUse = ++this.#uses;
    return chosen;
  }
}

/** A slot is unusable: the process should exit, so that another one starts with all slots. */
export class SlotLost extends Error {
  override readonly name = "SlotLost";
}

/** A sequence, and the owner (cache key) of the conversation in it. */
export class Slot {
  readonly sequence: NativeSequence;
  busy = false;
  /** Number of the slot's last use, counted over all slots; 0: never used. */
  lastUse = 0;
  readonly #batcher: StepBatcher;
  #owner: string | null = null;

  constructor(sequence: NativeSequence, batcher: StepBatcher) {
    this.sequence = sequence;
    this.#batcher = batcher;
  }

  /**
   * Number of prompt tokens that need no evaluation. Tokens of another owner are never reused (SEC-23). At least one token
   * is left to evaluate, because an answer begins with the evaluation of a token.
   */
  knownTokens(prompt: readonly number[], owner: string): number {
    const { tokens, keepsPrefixes } = this.sequence;
    if (owner !== this.#owner || !keepsPrefixes) return 0;
    const end = Math.min(tokens.length, prompt.length - 1);
    let length = 0;
    while (length < end && tokens[length] === prompt[length]) length++;
    return length;
  }

  /**
   * Cuts the sequence back to the prefix that it shares with the prompt; an empty one clears it. Returns the tokens of the
   * prefix.
   */
  async prepare(prompt: readonly number[], owner: string): Promise<number> {
    const known = this.knownTokens(prompt, owner);
    if (this.sequence.tokens.length > known) await this.#batcher.step(() => this.sequence.cutTo(known));
    this.#owner = owner;
    return known;
  }

  /** Clears the sequence after a failure during an evaluation, which may have left it in any state. Throws SlotLost. */
  async clear(): Promise<void> {
    this.#owner = null;
    try {
      await this.#batcher.step(() => this.sequence.cutTo(0));
    } catch (cause) {
      throw new SlotLost("a sequence cannot be cleared", { cause });
    }
  }
}
