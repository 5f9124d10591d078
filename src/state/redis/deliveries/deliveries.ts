import type { Clock } from "../../../domain/call/ports.js";
import { eventTypes } from "../../../domain/events/event.js";
import { attemptsKept } from "../../../domain/webhooks/delivery.js";
import {
  type Claim,
  type Claimed,
  type ClaimOptions,
  type DeliveryQueue,
  deliveredKeptMax,
  deliveredKeptMs,
  type FinishRequest,
  failedKeptMs,
  type ReplayRequest,
  type ReplayStep,
  type RetryOutcome,
  type RetryRequest,
} from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import type { RedisClient } from "../connection/client.js";
import { type KeySpace, shardCount } from "../connection/key-space.js";
import type { StoreTime } from "../connection/store-time.js";
import { Batches, TurnBatch } from "../ledger/batches.js";
import { ScriptRunner } from "../ledger/scripts.js";
import { DueShards, deliveryScripts, deliveryTimeoutMs } from "./due-shards.js";
import { decodeClaims, decodeHealths, encodeFinish } from "./encoding.js";
import { creationBounds, DeliveryLog } from "./listing.js";

export interface RedisDeliveryQueueDeps {
  readonly client: RedisClient;
  readonly space: KeySpace;
  readonly storeTime: StoreTime;
  readonly clock: Pick<Clock, "after">;
  /** Delivered ones of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
}

/** Deliveries that one call of a purge touches: a few milliseconds of the server. */
const purgeMax = 200;

/** The queue in Redis, with what its neighbours in this driver need of it. */
export interface RedisDeliveryQueue extends DeliveryQueue {
  /** What other parts of the driver do to the deliveries of a shard goes through here. */
  readonly shards: DueShards;
  /** Takes at most `max` payloads and records whose time is over; how many. */
  purge(max: number): Promise<number>;
  close(): void;
}

export function createRedisDeliveryQueue(deps: RedisDeliveryQueueDeps): RedisDeliveryQueue {
  const { client, space, storeTime, clock } = deps;
  const runner = new ScriptRunner(client, storeTime);
  const due = new DueShards({ client, runner, space, storeTime, clock });
  const claims = new DeliveryClaims({ space, due, turn: new TurnBatch((send) => client.together(send)) });
  const retries = new DeliveryRetries({ space, due });
  const log = new DeliveryLog({ client, runner, space });
  const purgeArgs = [deliveredKeptMs, failedKeptMs, deps.deliveredKeptMax ?? deliveredKeptMax];

  const purgeShard = async (shard: number, max: number): Promise<number> => {
    const args = [Math.min(max, purgeMax), ...purgeArgs];
    const { rest } = await runner.run(deliveryScripts.purge, [space.shard(shard).format], args, deliveryTimeoutMs);
    return Number(rest[0]);
  };

  return {
    shards: due,
    claim: (options) => claims.claim(options),
    finish: (request) => claims.finish(request),
    handBack: (given) => claims.handBack(given),
    retryNow: (request) => retries.retryNow(request),
    replay: (request) => retries.replay(request),
    find: (id) => log.find(id),
    payload: (id) => log.payload(id),
    list: (filter, page) => log.list(filter, page),
    backlog: () => log.backlog(),
    due: () => log.due(),
    onDue: (listener) => due.onDue(listener),
    async purge(max) {
      let gone = 0;
      for (let shard = 0; shard < shardCount && gone < max; ) {
        const step = await purgeShard(shard, max - gone);
        gone += step;
        if (step < purgeMax) shard += 1;
      }
      return gone;
    },
    close: () => due.close(),
  };
}

/** Shards that are asked at the same time: fewer calls with more claims in each are cheaper. */
const shardsAtOnce = 8;

export interface DeliveryClaimsDeps {
  readonly space: KeySpace;
  readonly due: DueShards;
  readonly turn: TurnBatch;
}

/** What workers do: they claim deliveries, and end them or give them back. */
export class DeliveryClaims {
  readonly #space: KeySpace;
  readonly #due: DueShards;
  readonly #finishes: Batches<FinishRequest, EndpointHealth | null>;

  constructor({ space, due, turn }: DeliveryClaimsDeps) {
    this.#space = space;
    this.#due = due;
    this.#finishes = new Batches(turn, (shard, requests) => this.#finishAll(shard, requests));
  }

  async claim({ max, leaseMs }: ClaimOptions): Promise<Claimed> {
    const claims: Claim[] = [];
    let shards = await this.#due.due();
    while (claims.length < max && shards.length > 0) {
      const { found, fault } = await this.#claimFrom(shards, max - claims.length, leaseMs);
      claims.push(...found);
      // What is claimed has to be worked on, whatever became of the other shards.
      if (fault !== null && claims.length === 0) throw fault;
      if (fault !== null || found.length === 0) break;
      shards = this.#due.dueAsKnown();
    }
    return { claims, nextInMs: this.#due.nextInMs() };
  }

  finish(request: FinishRequest): Promise<EndpointHealth | null> {
    return this.#finishes.ask(this.#space.shardOf(request.claim.account).index, request);
  }

  async handBack(claims: readonly Claim[]): Promise<void> {
    const byShard = new Map<number, string[]>();
    for (const { account, deliveryId, fence } of claims) {
      const { index } = this.#space.shardOf(account);
      byShard.set(index, [...(byShard.get(index) ?? []), deliveryId, String(fence)]);
    }
    await Promise.all([...byShard].map(([shard, args]) => this.#due.runMaking(deliveryScripts.handBack, shard, args)));
  }

  /** Asks the first of the shards for an equal part each. */
  async #claimFrom(
    shards: readonly number[],
    max: number,
    leaseMs: number,
  ): Promise<{ readonly found: readonly Claim[]; readonly fault: unknown }> {
    const asked = shards.slice(0, Math.min(shardsAtOnce, max));
    const part = Math.floor(max / asked.length);
    const extra = max % asked.length;
    const answers = await Promise.allSettled(
      asked.map((shard, place) => this.#due.run(deliveryScripts.claim, shard, [part + Number(place < extra), leaseMs])),
    );
    const found: Claim[] = [];
    let fault: unknown = null;
    for (const answer of answers) {
      if (answer.status === "rejected") {
        fault = answer.reason;
        continue;
      }
      const [fence, claims, ...bodies] = answer.value as readonly [string, string, ...string[]];
      found.push(...decodeClaims(fence, claims, bodies));
    }
    return { found, fault };
  }

  /** An end frees a place of the endpoint, so what waits for one may be due then. */
  async #finishAll(shard: number, requests: readonly FinishRequest[]): Promise<readonly (EndpointHealth | null)[]> {
    const items = JSON.stringify(requests.map(encodeFinish));
    const [answers] = await this.#due.runMaking(deliveryScripts.finish, shard, [attemptsKept, items]);
    return decodeHealths(answers as string);
  }
}

/** What people do: they send deliveries again, one or many. */
export class DeliveryRetries {
  readonly #space: KeySpace;
  readonly #due: DueShards;

  constructor({ space, due }: { readonly space: KeySpace; readonly due: DueShards }) {
    this.#space = space;
    this.#due = due;
  }

  async retryNow({ account, deliveryId, by, restart, again }: RetryRequest): Promise<RetryOutcome> {
    const shard = this.#space.shardOf(account).index;
    const args = [account, deliveryId, by, Number(restart), Number(again)];
    const [outcome] = await this.#due.runMaking(deliveryScripts.retryNow, shard, args);
    return outcome as RetryOutcome;
  }

  async replay(request: ReplayRequest): Promise<ReplayStep> {
    const { account, endpointId, which, replayId, by, restart, after, max, firstInMs, spacingMs } = request;
    const { least, most } = creationBounds(request);
    const answer = await this.#due.runMaking(deliveryScripts.replay, this.#space.shardOf(account).index, [
      ...[account, endpointId, after === null ? least : `(${after}`, most, which],
      ...[replayId, by, Number(restart), max, firstInMs, spacingMs, ...eventTypes],
    ]);
    const [queued, waiting, delivered, failed, last] = answer as [number, number, number, number, string];
    return { queued, waiting, delivered, failed, next: last === "" ? null : last };
  }
}
