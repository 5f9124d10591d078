import type { Delivery } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter, EndpointBacklog } from "../../../domain/webhooks/delivery-queue.js";
import { type KeySpace, shardCount } from "../key-space.js";
import type { ScriptRunner } from "../ledger/script-runner.js";
import type { RedisClient, Script } from "../redis-client.js";
import { deliveryScripts, deliveryTimeoutMs } from "./delivery-scripts.js";
import { decodeDelivery } from "./delivery-texts.js";
import { placesOf } from "./newest-places.js";

/** Deliveries that one call reads with their attempts: 1.3 MB at most, and mostly 20 KB. */
const readMax = 32;
const backlogMax = 1_000;
/** Endpoints that one call counts: a few milliseconds. */
const countMax = 1_000;

export interface DeliveryLogDeps {
  readonly client: RedisClient;
  readonly runner: ScriptRunner;
  readonly space: KeySpace;
}

/** What is read of deliveries. None of it changes anything. */
export class DeliveryLog {
  readonly #client: RedisClient;
  readonly #runner: ScriptRunner;
  readonly #space: KeySpace;

  constructor({ client, runner, space }: DeliveryLogDeps) {
    this.#client = client;
    this.#runner = runner;
    this.#space = space;
  }

  /** An id does not say whose it is, so all shards are asked. */
  async find(id: string): Promise<Delivery | null> {
    const found = await this.#onAll((shard) => this.#read(shard, [id]));
    return found.flat()[0] ?? null;
  }

  async payload(id: string): Promise<string | null> {
    const bodies = await this.#onAll((shard) =>
      this.#client.command<string | null>("hget", [this.#space.shard(shard).bodies, id], deliveryTimeoutMs),
    );
    return bodies.find((body) => body !== null) ?? null;
  }

  async list(
    filter: DeliveryFilter,
    page: { readonly limit: number; readonly after: string | null },
  ): Promise<{ readonly deliveries: readonly Delivery[]; readonly next: string | null }> {
    const shards = filter.account === null ? allShards : [this.#space.shardOf(filter.account).index];
    const scan = (shard: number, args: readonly (string | number)[]) => this.#run(deliveryScripts.scan, shard, args);
    const { places, next } = await placesOf({ shards, filter, ...page, scan });
    const read = new Map<string, Delivery>();
    await Promise.all(
      shards.map(async (shard) => {
        const ids = places.filter((place) => place.shard === shard).map(({ id }) => id);
        for (const delivery of await this.#read(shard, ids)) read.set(delivery.id, delivery);
      }),
    );
    // One that was forgotten meanwhile is left out.
    return { deliveries: places.flatMap(({ id }) => read.get(id) ?? []), next };
  }

  async backlog(): Promise<readonly EndpointBacklog[]> {
    const found = await this.#onAll(async (shard) => (await this.#counts(shard, 0)).counts);
    const all = found.flat().map(({ name, open, oldestDueAtMs }) => {
      const colon = name.indexOf(":");
      return { account: name.slice(0, colon), endpointId: name.slice(colon + 1), open, oldestDueAtMs };
    });
    const waitingSince = ({ oldestDueAtMs }: EndpointBacklog) => oldestDueAtMs ?? Number.POSITIVE_INFINITY;
    const byWait = (a: EndpointBacklog, b: EndpointBacklog) =>
      waitingSince(a) === waitingSince(b) ? 0 : waitingSince(a) - waitingSince(b);
    return all.sort(byWait).slice(0, backlogMax);
  }

  async due(): Promise<number> {
    const sums = await this.#onAll(async (shard) => {
      let sum = 0;
      for (let from = 0, isLast = false; !isLast; from += countMax) {
        const step = await this.#counts(shard, from);
        sum += step.counts.reduce((part, { due }) => part + due, 0);
        isLast = step.isLast;
      }
      return sum;
    });
    return sums.reduce((sum, each) => sum + each, 0);
  }

  async #read(shard: number, ids: readonly string[]): Promise<readonly Delivery[]> {
    const found: Delivery[] = [];
    for (let from = 0; from < ids.length; from += readMax) {
      const texts = await this.#run(deliveryScripts.find, shard, ids.slice(from, from + readMax));
      found.push(...(texts as readonly string[]).map(decodeDelivery));
    }
    return found;
  }

  async #counts(shard: number, from: number): Promise<{ readonly counts: readonly Count[]; readonly isLast: boolean }> {
    const [which, ...found] = await this.#run(deliveryScripts.backlog, shard, [from, countMax]);
    const counts = (found as [string, number, number, number][]).map(([name, open, due, oldestDueAtMs]) => ({
      name,
      open,
      due,
      oldestDueAtMs: oldestDueAtMs || null,
    }));
    return { counts, isLast: which === "last" };
  }

  async #run(script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> {
    const { rest } = await this.#runner.run(script, [this.#space.shard(shard).format], args, deliveryTimeoutMs);
    return rest;
  }

  /** Asks all shards in one write. */
  #onAll<T>(ask: (shard: number) => Promise<T>): Promise<T[]> {
    const asked: Promise<T>[] = [];
    this.#client.together(() => {
      for (const shard of allShards) asked.push(ask(shard));
    });
    return Promise.all(asked);
  }
}

const allShards = Array.from({ length: shardCount }, (_, shard) => shard);

interface Count {
  /** Account and endpoint, joined by a colon. */
  readonly name: string;
  readonly open: number;
  readonly due: number;
  readonly oldestDueAtMs: number | null;
}
