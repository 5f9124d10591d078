import { ServiceError } from "../../domain/call/service-error.js";
import type { OwnChange, RedisChangeFeed } from "./changes.js";
import { loadScript } from "./load-script.js";
import type { RedisClient } from "./redis-client.js";
import { unavailable } from "./redis-faults.js";

/** What must hold for a write: `same` is the text that the caller has read. */
export type Condition = "absent" | "present" | "any" | { readonly same: string };

export interface DocumentsOptions {
  /** Of the hash that holds them; spelled once, in `document-keys`. */
  readonly key: string;
  readonly max: number;
  /** What is told of a write; null: nobody remembers these documents. */
  change(id: string): OwnChange | null;
}

const putDocument = loadScript("put-document");

/** Tries of a change that was overtaken between reading and writing. */
const changeAttempts = 10;

/**
 * Documents of one kind: texts by id in one hash. Every write is one step that also checks what must hold, and is told
 * to all replicas.
 */
export class Documents {
  readonly #client: RedisClient;
  readonly #feed: RedisChangeFeed;
  readonly #options: DocumentsOptions;

  constructor(client: RedisClient, feed: RedisChangeFeed, options: DocumentsOptions) {
    this.#client = client;
    this.#feed = feed;
    this.#options = options;
  }

  get(id: string): Promise<string | null> {
    return this.#client.command<string | null>("hget", [this.#options.key, id]);
  }

  /** All, in no order. */
  list(): Promise<readonly string[]> {
    return this.#client.command<string[]>("hvals", [this.#options.key]);
  }

  /** False: the condition does not hold. Rejects with `storage_unavailable` when there is no room. */
  put(id: string, text: string, condition: Condition): Promise<boolean> {
    return this.#write(id, text, condition, this.#options.change(id));
  }

  /** False: there is none. */
  remove(id: string): Promise<boolean> {
    return this.#write(id, "", "any", this.#options.change(id));
  }

  /**
   * Changes one document by what `next` makes of it, in one atomic step however often that is tried; the text that is
   * kept now, or null when there is none. `next` returns the same text for no change.
   */
  async change(id: string, next: (text: string) => string, told = this.#options.change(id)): Promise<string | null> {
    for (let attempt = 0; attempt < changeAttempts; attempt += 1) {
      const text = await this.get(id);
      if (text === null) return null;
      const changed = next(text);
      if (changed === text || (await this.#write(id, changed, { same: text }, told))) return changed;
    }
    throw new ServiceError("conflict", "The object is being changed by others. Try again.");
  }

  async #write(id: string, text: string, condition: Condition, told: OwnChange | null): Promise<boolean> {
    const { key, max } = this.#options;
    const [name, same] = typeof condition === "string" ? [condition, ""] : ["same", condition.same];
    const outcome = await this.#feed.telling(
      told === null ? [] : [told],
      ([message = ""]) =>
        this.#client.run(putDocument, [key], [id, name, same, text, max, this.#feed.channel, message]),
      (what) => what === "done",
    );
    if (outcome === "full") throw unavailable(`it holds ${max} of these already, which is the most`);
    return outcome === "done";
  }
}
