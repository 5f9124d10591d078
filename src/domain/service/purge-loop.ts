import type { Clock, Logger } from "../call/ports.js";
import type { State } from "./state.js";

/** Between two looks; what is old can wait. */
const everyMs = 600_000;
/** Between two steps while there is more: other writes come first. */
const stepEveryMs = 200;
/** Records of one step: some milliseconds of the store. */
const stepMax = 500;

/** Removes what the store keeps no longer, in small steps. */
export class PurgeLoop {
  readonly #deps: { readonly state: Pick<State, "purge">; readonly clock: Clock; readonly log: Logger };
  #cancelTimer: () => void;
  #closed = false;

  constructor(deps: { readonly state: Pick<State, "purge">; readonly clock: Clock; readonly log: Logger }) {
    this.#deps = deps;
    this.#cancelTimer = this.#after(stepEveryMs);
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }

  #after(ms: number): () => void {
    return this.#deps.clock.after(ms, () => {
      void this.#step().then((more) => {
        if (!this.#closed) this.#cancelTimer = this.#after(more ? stepEveryMs : everyMs);
      });
    });
  }

  /** Whether there may be more. Never rejects: a store that is away is asked again later. */
  async #step(): Promise<boolean> {
    try {
      return (await this.#deps.state.purge(stepMax)) >= stepMax;
    } catch (err) {
      this.#deps.log.warn({ err }, "old records could not be removed");
      return false;
    }
  }
}
