import { BoundedMap } from "../../lib/bounded-map.js";
import type { Logger } from "../call/ports.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";

const touchEveryMs = 60_000;
const keysMax = 10_000;

/** Notes when keys are used: at most once a minute each, beside the request, never in its way (KEY-15). */
export class LastUsed {
  readonly #keys: Pick<KeyStore, "touch">;
  readonly #now: () => number;
  readonly #log: Logger;
  readonly #touchedAtMs = new BoundedMap<string, number>(keysMax);
  #failing = false;

  constructor(deps: { readonly keys: Pick<KeyStore, "touch">; readonly now: () => number; readonly log: Logger }) {
    this.#keys = deps.keys;
    this.#now = deps.now;
    this.#log = deps.log;
  }

  /**
   * `nowMs` is the monotonic time. Never throws and is not awaited: a use that cannot be noted is logged once until
   * noting works again.
   */
  note({ id }: ApiKeyRecord, nowMs: number): void {
    const touchedAtMs = this.#touchedAtMs.get(id);
    if (touchedAtMs !== undefined && nowMs - touchedAtMs < touchEveryMs) return;
    this.#touchedAtMs.set(id, nowMs);
    this.#keys.touch(id, this.#now()).then(
      () => {
        this.#failing = false;
      },
      (cause: unknown) => {
        if (!this.#failing) this.#log.warn({ err: cause, key_id: id }, "the last use of API keys cannot be noted");
        this.#failing = true;
      },
    );
  }
}
