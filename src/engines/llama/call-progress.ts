import type { GenEvent } from "../../domain/engine/engine.js";
import type { ProducedTokens } from "./protocol.js";

/** What a call is known to have consumed and produced so far. */
export class CallProgress {
  #promptTokens = 0;
  #cachedTokens = 0;
  #outTokens = 0;
  #isAccepted = false;
  #hasOutput = false;

  get isAccepted(): boolean {
    return this.#isAccepted;
  }

  /** Whether the caller may have seen a part of the answer. */
  get hasOutput(): boolean {
    return this.#hasOutput;
  }

  get produced(): ProducedTokens {
    return { promptTokens: this.#promptTokens, outTokens: this.#outTokens, cachedTokens: this.#cachedTokens };
  }

  note(event: GenEvent): void {
    if (event.type === "accepted") {
      this.#isAccepted = true;
      this.#promptTokens = event.promptTokens ?? 0;
      this.#cachedTokens = event.cachedTokens;
      return;
    }
    this.#hasOutput = true;
    this.#outTokens = event.outTokens;
  }

  /** Takes over what the child said at the end. */
  correct(produced: ProducedTokens): void {
    this.#promptTokens = produced.promptTokens;
    this.#cachedTokens = produced.cachedTokens;
    this.#outTokens = produced.outTokens;
  }
}
