import type { CopiedKind } from "../../../domain/service/state-copy.js";
import { groupBy } from "../../../lib/collections.js";
import { backgroundTimeoutMs } from "../connection/client.js";
import type { RedisConnection } from "../connection/connection.js";
import { keyPrefix } from "../connection/key-space.js";
import { describeKey, tagOf } from "./copied-keys.js";

/** Number of keys that one step of a scan examines, which takes about a millisecond of the server's time. */
const scanCount = 1_000;

/** Repeats a call while the server does not answer. */
type Patiently = <T>(call: () => Promise<T>) => Promise<T>;

const counts = { hash: "hlen", zset: "zcard", set: "scard", string: "exists" } as const;

/** Goes through the keys of this driver in a Redis, on all primaries of a cluster, step by step. */
export class CopiedKeyScan {
  readonly #connection: RedisConnection;

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Name of a key with such a description; null: there is none. */
  async find(isWanted: (found: ReturnType<typeof describeKey>) => boolean): Promise<string | null> {
    let first: string | null = null;
    await this.#each(async (names) => {
      first ??= names.find((name) => isWanted(describeKey(name))) ?? null;
      return first === null;
    });
    return first;
  }

  /** Removes all keys that copies write. */
  async removeAll(patiently: Patiently): Promise<void> {
    await this.#each(async (names) => {
      const byTag = groupBy(names.filter(isCopied), tagOf);
      const removed = [...byTag.values()].map((of) =>
        patiently(() => this.#connection.command("unlink", of, backgroundTimeoutMs)),
      );
      await Promise.all(removed);
      return true;
    });
  }

  /**
   * Number of entries in keys that copies write, by kind; too high if the server's hash table of keys is resized in the
   * meantime.
   */
  async countEntries(patiently: Patiently): Promise<ReadonlyMap<CopiedKind, number>> {
    const sums = new Map<CopiedKind, number>();
    await this.#each(async (names) => {
      const counted = names.map(async (name) => {
        const found = describeKey(name);
        if (typeof found !== "object") return;
        const count = () => this.#connection.command<number>(counts[found.type], [name], backgroundTimeoutMs);
        sums.set(found.kind, (await patiently(count)) + (sums.get(found.kind) ?? 0));
      });
      await Promise.all(counted);
      return true;
    });
    return sums;
  }

  /** Calls `visit` with the names of each step until it resolves with false. */
  async #each(visit: (names: readonly string[]) => Promise<boolean>): Promise<void> {
    await this.#connection.eachPrimary(async (call) => {
      let cursor = "0";
      do {
        const args = [cursor, "MATCH", `${keyPrefix}*`, "COUNT", scanCount];
        const [next, names] = (await call("scan", args, backgroundTimeoutMs)) as [string, string[]];
        if (!(await visit(names))) return;
        cursor = next;
      } while (cursor !== "0");
    });
  }
}

function isCopied(name: string): boolean {
  return typeof describeKey(name) === "object";
}
