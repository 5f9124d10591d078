import { invariant } from "../../../domain/service-error.js";
import type { Delivery, DeliveryQueue } from "../../../domain/webhooks/delivery-queue.js";
import { type EventType, eventTypes } from "../../../domain/webhooks/event-draft.js";
import { createKeySpace, shardCount } from "../key-space.js";
import { loadScript } from "../load-script.js";
import type { RedisClient } from "../redis-client.js";
import type { StoreTime } from "../store-time.js";
import { ScriptRunner } from "./script-runner.js";

const timeoutMs = 250;
/** Between the fields of a record; JSON holds none. */
const separator = "\u001f";

export interface RedisDeliveriesDeps {
  readonly client: RedisClient;
  readonly storeTime: StoreTime;
}

/** Reads what `settle.lua` has queued. */
export function createRedisDeliveries({ client, storeTime }: RedisDeliveriesDeps): DeliveryQueue {
  const space = createKeySpace(client.prefix);
  const runner = new ScriptRunner(client, storeTime);
  const readDeliveries = loadScript("read-deliveries", ["prelude"]);

  return {
    async list(account, max) {
      const shard = space.shardOf(account);
      const keys = [shard.format, shard.deliveries, shard.deliveryList(account)];
      const { rest } = await runner.run(readDeliveries, keys, [max], timeoutMs);
      const found = rest as readonly string[];
      const deliveries: Delivery[] = [];
      for (let i = 0; i < found.length; i += 2) deliveries.push(decodeDelivery(found[i] ?? "", found[i + 1] ?? ""));
      return deliveries;
    },
    async due() {
      const counts = await Promise.all(
        Array.from({ length: shardCount }, (_, index) =>
          client.command<number>("ZCOUNT", [space.shard(index).due, "-inf", storeTime.now()], timeoutMs),
        ),
      );
      return counts.reduce((sum, each) => sum + each, 0);
    },
  };
}

function decodeDelivery(id: string, record: string): Delivery {
  const [state, account = "", eventId = "", eventType = "", endpointId = "", createdAtMs, ...body] =
    record.split(separator);
  invariant(state === "pending" && isEventType(eventType), "a delivery is stored as settle.lua writes it");
  return {
    id,
    account,
    eventId,
    eventType,
    endpointId,
    state,
    createdAtMs: Number(createdAtMs),
    body: body.join(separator),
  };
}

function isEventType(text: string): text is EventType {
  return (eventTypes as readonly string[]).includes(text);
}
