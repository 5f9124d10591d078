import { randomBytes } from "node:crypto";
import type { Clock } from "../../domain/ports.js";
import { documentKeys } from "./document-keys.js";
import { loadScript } from "./load-script.js";
import type { RedisClient } from "./redis-client.js";

const noteReplica = loadScript("note-replica");

const noteEveryMs = 2_000;
/** A process that was not heard of for so long does not count: it has died, or the store was away. */
const lifeMs = 10_000;

/** Counts the processes that share the store, by what each of them notes there. */
export class ReplicaCount {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #name = randomBytes(9).toString("base64url");
  #known = 1;
  #isClosed = false;

  constructor(deps: { readonly client: RedisClient; readonly clock: Clock }) {
    this.#client = deps.client;
    this.#clock = deps.clock;
    this.#key = documentKeys(deps.client.prefix).replicas;
  }

  /** As last known, at least this one. */
  get known(): number {
    return this.#known;
  }

  /** Notes this process now and from time to time. Resolves after the first count. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    // While the store does not answer, the last count stays.
    await this.#note(lifeMs).catch(() => {});
    this.#clock.after(noteEveryMs, () => void this.start());
  }

  /** Takes this process out, so that the others need not wait for the end of its time. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#note(0).catch(() => {});
  }

  async #note(life: number): Promise<void> {
    this.#known = Math.max(1, Number(await this.#client.run(noteReplica, [this.#key], [this.#name, life])));
  }
}
