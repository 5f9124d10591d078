import { attemptsKept } from "../../../domain/webhooks/delivery.js";
import type { Claim, Claimed, ClaimOptions, FinishRequest } from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import type { KeySpace } from "../key-space.js";
import { Batches } from "../ledger/batches.js";
import type { TurnBatch } from "../ledger/turn.js";
import { deliveryScripts } from "./delivery-scripts.js";
import { decodeClaims, decodeHealths, encodeFinish } from "./delivery-texts.js";
import type { DueShards } from "./due-shards.js";

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
