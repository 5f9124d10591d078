import { invariant } from "../../../domain/call/service-error.js";
import type { EventType } from "../../../domain/events/events.js";
import { attemptsKept } from "../../../domain/webhooks/delivery.js";
import {
  type AccountShare,
  type Claim,
  type DeliveryQueue,
  type FinishRequest,
  fanOutMax,
  type SlotShares,
} from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import { keySpace } from "../connection/key-space.js";
import { Batches, type TurnBatch } from "../ledger/batches.js";
import { type DueShards, deliveryScripts } from "./due-shards.js";
import { attemptText, letterOfState, parseHealth } from "./encoding.js";

/** Number of shards in one round of claims. It is small because few calls with many claims each are cheaper than many calls. */
const shardsAtOnce = 8;

/** Result of one round of claims over several shards. */
interface Found {
  readonly claims: readonly Claim[];
  /** Number of endpoints that were skipped because their account, or slow endpoints in general, had no free slots. */
  readonly withoutShare: number;
  /** Failure of a shard, else null. */
  readonly fault: unknown;
}

/** The part of the queue that workers use: creating and claiming deliveries, and ending or releasing the claims. */
export function createClaims(
  due: DueShards,
  turn: TurnBatch,
  openDeliveriesMax: number,
): Pick<DeliveryQueue, "fanOut" | "claim" | "finish" | "handBack"> {
  const finishes = new Batches<FinishRequest, EndpointHealth | null>(turn, async (shard, requests) => {
    const args = [attemptsKept, JSON.stringify(requests.map(encodeFinish))];
    // The end of a delivery frees a slot of the endpoint, so a waiting delivery may be due then.
    const [answers] = await due.runAndNotify(deliveryScripts.finish, shard, args);
    return decodeHealths(answers as string);
  });

  /** Claims an equal part from each of the first shards. */
  const claimFrom = async (
    shards: readonly number[],
    max: number,
    leaseMs: number,
    shares: SharesOfShard,
  ): Promise<Found> => {
    const chosen = shards.slice(0, Math.min(shardsAtOnce, max));
    const part = Math.floor(max / chosen.length);
    const extra = max % chosen.length;
    const answers = await Promise.allSettled(
      chosen.map((shard, i) => {
        const args = [part + Number(i < extra), leaseMs, fanOutMax, openDeliveriesMax, shares(i, chosen.length)];
        return due.run(deliveryScripts.claim, shard, args);
      }),
    );
    const claims: Claim[] = [];
    let withoutShare = 0;
    let fault: unknown = null;
    for (const answer of answers) {
      if (answer.status === "rejected") {
        fault = answer.reason;
        continue;
      }
      const [passedOver, fence, found, ...bodies] = answer.value as readonly [number, string, string, ...string[]];
      withoutShare += passedOver;
      claims.push(...decodeClaims(fence, found, bodies));
    }
    return { claims, withoutShare, fault };
  };

  /** Claims in rounds until nothing is due or there are `max`. */
  const claimAll = async (
    shards: readonly number[],
    max: number,
    leaseMs: number,
    shares: SharesOf,
  ): Promise<Found> => {
    const claims: Claim[] = [];
    let withoutShare = 0;
    for (let left = shards; claims.length < max && left.length > 0; left = due.knownDue()) {
      const found = await claimFrom(left, max - claims.length, leaseMs, shares(claims));
      claims.push(...found.claims);
      withoutShare = found.withoutShare;
      if (found.fault !== null || found.claims.length === 0) return { claims, withoutShare, fault: found.fault };
    }
    return { claims, withoutShare, fault: null };
  };

  return {
    async fanOut(max) {
      const shards = await due.due();
      const args = [max, openDeliveriesMax];
      const answers = await Promise.allSettled(shards.map((shard) => due.run(deliveryScripts.fanOut, shard, args)));
      const [failed, ...others] = answers.filter(({ status }) => status === "rejected");
      // The deliveries of other shards are created even if one failed.
      if (failed?.status === "rejected" && others.length + 1 === answers.length) throw failed.reason;
      return answers.some((answer) => answer.status === "fulfilled" && answer.value[0] === 1);
    },
    async claim({ max, leaseMs, shares }) {
      const shards = await due.due();
      const first = await claimAll(shards, max, leaseMs, sharesOf(shares, shares?.contended, []));
      // Claims are returned even if another shard failed.
      if (first.fault !== null && first.claims.length === 0) throw first.fault;
      const left = max - first.claims.length;
      if (shares === undefined || first.withoutShare === 0 || left === 0 || first.fault !== null) {
        return { claims: first.claims, nextInMs: due.nextInMs() };
      }
      // The accounts within their share have no more due deliveries, so the others may use the larger share for an account
      // alone.
      const more = await claimAll(shards, left, leaseMs, sharesOf(shares, shares.alone, first.claims));
      const claims = [...first.claims, ...more.claims];
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

/** Shares as `claim.lua` takes them, for one of several shards that are called together. */
type SharesOfShard = (index: number, shards: number) => string;
/** Returns the shares that are left after these claims of the call. */
type SharesOf = (claims: readonly Claim[]) => SharesOfShard;

function sharesOf(shares: SlotShares | undefined, of: AccountShare | undefined, before: readonly Claim[]): SharesOf {
  if (shares === undefined || of === undefined) return () => () => "";
  return (claims) => {
    const held = new Map(shares.held.map(([account, ...slots]) => [account, slots] as const));
    let { slowRoom } = shares;
    for (const { account, isSlow } of [...before, ...claims]) {
      const [slots, slow] = held.get(account) ?? [0, 0];
      held.set(account, [slots + 1, slow + Number(isSlow)]);
      slowRoom -= Number(isSlow);
    }
    const heldNow = [...held].map(([account, slots]) => [account, ...slots]);
    const room = Math.max(0, slowRoom);
    return (index, shards) => {
      // An account is on one shard, but slow endpoints are on all shards, so their slots are divided among the shards.
      const part = Math.floor(room / shards) + Number(index < room % shards);
      return JSON.stringify([of.slotsMax, of.slowMax, heldNow, shares.slow, part]);
    };
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
  maxInFlight: number,
  isSlow: number,
];

/** Claims of one call of `claim.lua`, which share a fence. Bodies are in the order of the claims. */
function decodeClaims(fence: string, json: string, bodies: readonly string[]): readonly Claim[] {
  return (JSON.parse(json) as readonly ClaimAnswer[]).map((claim, i) => {
    const [deliveryId, account, endpointId, eventId, eventType, attemptNumber, retriesUsed, ...rest] = claim;
    const [isManual, by, isSingle, dueAtMs, maxInFlight, isSlow] = rest;
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
      maxInFlight,
      isSlow: isSlow === 1,
    };
  });
}

/** An item of `finish.lua`. */
function encodeFinish({ claim, result, outcome }: FinishRequest): readonly unknown[] {
  const detail =
    outcome.state === "awaiting_retry" ? outcome.delayMs : outcome.state === "permanently_failed" ? outcome.reason : 0;
  const attempt = attemptText({ number: claim.attemptNumber, trigger: claim.trigger, by: claim.by, ...result });
  return [claim.deliveryId, String(claim.fence), letterOfState[outcome.state], detail, attempt];
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
