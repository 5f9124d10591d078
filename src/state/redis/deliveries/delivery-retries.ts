import { eventTypes } from "../../../domain/events/event.js";
import type { ReplayRequest, ReplayStep, RetryOutcome, RetryRequest } from "../../../domain/webhooks/delivery-queue.js";
import type { KeySpace } from "../key-space.js";
import { creationBounds } from "./creation-bounds.js";
import { deliveryScripts } from "./delivery-scripts.js";
import type { DueShards } from "./due-shards.js";

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
