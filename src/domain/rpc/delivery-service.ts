import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type Attempt as AttemptMessage,
  AttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
} from "../../../gen/unified/webhook/v1/delivery_pb.js";
import {
  DeliveryService,
  GetDeliveryResponseSchema,
  ListDeliveriesResponseSchema,
  ReplayDeliveriesResponseSchema,
  RetryDeliveryResponseSchema,
} from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import type { Deliveries } from "../webhooks/deliveries.js";
import type { Attempt, Delivery } from "../webhooks/delivery.js";
import { optionalTime } from "./optional-time.js";
import { type RpcService, rpcService } from "./rpc-service.js";

export type DeliveryAdmin = Pick<Deliveries, "list" | "get" | "retry" | "replay">;

/** `unified.webhook.v1.DeliveryService`: by the administrator, who was checked when the call was opened. */
export function createDeliveryService(deliveries: DeliveryAdmin): RpcService {
  return rpcService(DeliveryService, {
    async listDeliveries({ createdFrom, createdBefore, ...question }) {
      const { deliveries: found, nextPageToken } = await deliveries.list({
        ...question,
        fromMs: instantOf(createdFrom),
        toMs: instantOf(createdBefore),
      });
      return create(ListDeliveriesResponseSchema, { deliveries: found.map(toListed), nextPageToken });
    },
    async getDelivery({ id }) {
      const { delivery, payload } = await deliveries.get(id);
      return create(GetDeliveryResponseSchema, { delivery: toMessage(delivery), payload: payload ?? "" });
    },
    async retryDelivery(order, ctx) {
      return create(RetryDeliveryResponseSchema, { delivery: toMessage(await deliveries.retry(order, ctx)) });
    },
    async replayDeliveries({ createdFrom, createdBefore, ...wish }, ctx) {
      const { replayId, toMs, progress } = await deliveries.replay(
        { ...wish, fromMs: instantOf(createdFrom), toMs: instantOf(createdBefore) },
        ctx,
      );
      return create(ReplayDeliveriesResponseSchema, { ...progress, replayId, createdBefore: timestampFromMs(toMs) });
    },
  });
}

function instantOf(timestamp: Timestamp | undefined): number | null {
  return timestamp === undefined ? null : timestampMs(timestamp);
}

/** Receivers' answers are up to 40 KiB of a delivery: a page of a thousand would hold 40 MiB of them. */
function toListed(delivery: Delivery): DeliveryMessage {
  return toMessage({ ...delivery, attempts: delivery.attempts.map((attempt) => ({ ...attempt, response: null })) });
}

function toMessage(delivery: Delivery): DeliveryMessage {
  const { id, account, eventId, eventType, endpointId, state, reason, attemptsMade } = delivery;
  return create(DeliverySchema, {
    id,
    account,
    eventId,
    eventType,
    endpointId,
    state,
    reason: reason ?? "",
    attemptsMade,
    ...optionalTime("nextAttemptAt", delivery.nextAttemptAtMs),
    createdAt: timestampFromMs(delivery.createdAtMs),
    attempts: delivery.attempts.map(attemptMessage),
    purged: delivery.isPurged,
    replayId: delivery.replayId ?? "",
  });
}

function attemptMessage(attempt: Attempt): AttemptMessage {
  const { number, trigger, by, startedAtMs, latencyMs, status, error, ip, response, retryAfter } = attempt;
  return create(AttemptSchema, {
    number,
    trigger,
    by,
    startedAt: timestampFromMs(startedAtMs),
    latencyMs: BigInt(Math.round(latencyMs)),
    status: status ?? 0,
    error: error ?? "",
    ip: ip ?? "",
    response: response ?? "",
    retryAfter: retryAfter ?? "",
    ...optionalTime("nextAttemptAt", attempt.nextAttemptAtMs),
  });
}
