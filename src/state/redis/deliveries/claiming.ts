import { invariant } from "../../../domain/call/service-error.js";
import type { EventType } from "../../../domain/events/events.js";
import { attemptsKept } from "../../../domain/webhooks/delivery.js";
import type { Claim, DeliveryQueue, FinishRequest } from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import { keySpace } from "../connection/key-space.js";
import { Batches, type TurnBatch } from "../ledger/batches.js";
import { type DueShards, deliveryScripts } from "./due-shards.js";
import { letterOfState, parseHealth, type StoredAttempt } from "./encoding.js";

/** Shards of one round of claims: fewer calls with more claims in each are cheaper. */
const shardsAtOnce = 8;

/** The part of the queue that workers use: claiming deliveries and ending or releasing the claims. */
export function createClaims(due: DueShards, turn: TurnBatch): Pick<DeliveryQueue, "claim" | "finish" | "handBack"> {
  const finishes = new Batches<FinishRequest, EndpointHealth | null>(turn, async (shard, requests) => {
    const args = [attemptsKept, JSON.stringify(requests.map(encodeFinish))];
    // The end of a delivery frees a slot of the endpoint, so a waiting delivery may be due then.
    const [answers] = await due.runAndNotify(deliveryScripts.finish, shard, args);
    return decodeHealths(answers as string);
  });

  /** Claims an equal part from each of the first shards. `fault` is the failure of a shard, else null. */
  const claimFrom = async (shards: readonly number[], max: number, leaseMs: number) => {
    const chosen = shards.slice(0, Math.min(shardsAtOnce, max));
    const part = Math.floor(max / chosen.length);
    const extra = max % chosen.length;
    const answers = await Promise.allSettled(
      chosen.map((shard, i) => due.run(deliveryScripts.claim, shard, [part + Number(i < extra), leaseMs])),
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
  };

  return {
    async claim({ max, leaseMs }) {
      const claims: Claim[] = [];
      let shards = await due.due();
      while (claims.length < max && shards.length > 0) {
        const { found, fault } = await claimFrom(shards, max - claims.length, leaseMs);
        claims.push(...found);
        // Claims are returned even if another shard failed.
        if (fault !== null && claims.length === 0) throw fault;
        if (fault !== null || found.length === 0) break;
        shards = due.knownDue();
      }
      return { claims, nextInMs: due.nextInMs() };
    },
    finish: (request) => finishes.ask(keySpace.shardOf(request.claim.account).index, request),
    async handBack(claims) {
      const byShard = new Map<number, string[]>();
      for (const { account, deliveryId, fence } of claims) {
        const { index } = keySpace.shardOf(account);
        byShard.set(index, [...(byShard.get(index) ?? []), deliveryId, String(fence)]);
      }
      await Promise.all([...byShard].map(([shard, args]) => due.runAndNotify(deliveryScripts.handBack, shard, args)));
    },
  };
}

type ClaimAnswer = readonly [
  id: string,
  account: string,
  endpointId: string,
  eventId: string,
  eventType: EventType,
  attemptNumber: number,
  retriesUsed: number,
  isManual: number,
  by: string,
  isSingle: number,
  dueAtMs: number,
];

/** Claims of one call of `claim.lua`, which share a fence. Bodies are in the order of the claims. */
function decodeClaims(fence: string, json: string, bodies: readonly string[]): readonly Claim[] {
  return (JSON.parse(json) as readonly ClaimAnswer[]).map((claim, i) => {
    const [deliveryId, account, endpointId, eventId, eventType, attemptNumber, retriesUsed, ...rest] = claim;
    const [isManual, by, isSingle, dueAtMs] = rest;
    const body = bodies[i];
    invariant(body !== undefined, "an open delivery has its payload");
    return {
      deliveryId,
      account,
      endpointId,
      eventId,
      eventType,
      body,
      fence: Number(fence),
      attemptNumber,
      retriesUsed,
      trigger: isManual === 1 ? "manual" : "schedule",
      by,
      isSingle: isSingle === 1,
      dueAtMs,
    };
  });
}

/** An item of `finish.lua`. */
function encodeFinish({ claim, result, outcome }: FinishRequest): readonly unknown[] {
  const detail =
    outcome.state === "awaiting_retry" ? outcome.delayMs : outcome.state === "permanently_failed" ? outcome.reason : 0;
  const attempt: StoredAttempt = [
    claim.attemptNumber,
    claim.trigger === "manual" ? 1 : 0,
    claim.by,
    result.startedAtMs,
    result.latencyMs,
    result.status,
    result.error,
    result.ip,
    result.response,
    result.retryAfter,
    result.signatures ?? null,
  ];
  return [claim.deliveryId, String(claim.fence), letterOfState[outcome.state], detail, JSON.stringify(attempt)];
}

/** Answers of `finish.lua`; null: the claim was lost. Equal answers are the same object. */
function decodeHealths(json: string): readonly (EndpointHealth | null)[] {
  const known = new Map<unknown, EndpointHealth | null>([[0, null]]);
  return (JSON.parse(json) as readonly (string | 0)[]).map((answer) => {
    const health = known.get(answer) ?? (answer === 0 ? null : parseHealth(answer));
    known.set(answer, health);
    return health;
  });
}
