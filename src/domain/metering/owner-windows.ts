import type { LimitOwner } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import { SlidingWindow } from "./sliding-window.js";

const ownersMax = 500_000;

/** What one owner of limits has used. */
export class OwnerWindows {
  #requests = new SlidingWindow();
  #tokens = new SlidingWindow();
  /** Admitted requests that have not ended. */
  running = 0;

  get requests(): SlidingWindow {
    return this.#requests;
  }

  get tokens(): SlidingWindow {
    return this.#tokens;
  }

  /** Running requests keep the old windows for what they give back, so none of it is taken from new charges. */
  reset(): void {
    this.#requests = new SlidingWindow();
    this.#tokens = new SlidingWindow();
  }

  isIdle(nowMs: number): boolean {
    return this.running === 0 && this.#requests.isIdle(nowMs) && this.#tokens.isIdle(nowMs);
  }
}

/** The windows of all owners that were used in the last minute or have running requests (state RL-21). */
export class WindowTable {
  readonly #byName = new Map<string, OwnerWindows>();
  #unchecked: IterableIterator<[string, OwnerWindows]> = this.#byName.entries();

  get size(): number {
    return this.#byName.size;
  }

  /** Throws ServiceError `server_is_overloaded` when 500,000 owners are kept. */
  of(account: string, owner: LimitOwner): OwnerWindows {
    const name = nameOf(account, owner);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    if (this.#byName.size >= ownersMax) {
      throw new ServiceError("server_is_overloaded", `Limits of ${ownersMax} owners are in use.`, {
        retryAfterMs: 1000,
      });
    }
    const windows = new OwnerWindows();
    this.#byName.set(name, windows);
    return windows;
  }

  find(account: string, owner: LimitOwner): OwnerWindows | undefined {
    return this.#byName.get(nameOf(account, owner));
  }

  /** Looks at the next `max` owners, in turn, and forgets those that hold nothing: a bounded stall, and no timer. */
  dropIdle(nowMs: number, max: number): void {
    for (let checked = 0; checked < max; checked++) {
      const next = this.#unchecked.next();
      if (next.done === true) {
        this.#unchecked = this.#byName.entries();
        return;
      }
      const [name, windows] = next.value;
      if (windows.isIdle(nowMs)) this.#byName.delete(name);
    }
  }
}

/** No account and no id holds a line break. */
function nameOf(account: string, { kind, id }: LimitOwner): string {
  return kind === "model" ? `model\n${account}\n${id}` : `${kind}\n${id}`;
}
