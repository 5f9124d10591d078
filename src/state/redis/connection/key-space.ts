import { createHash } from "node:crypto";
import type { LimitOwner } from "../../../domain/call/rate-limits.js";
import { type Period, periodName, type UsageScope } from "../../../domain/events/events.js";
import type { UsageRange } from "../../../domain/metering/usage-store.js";
import { BoundedMap } from "../../../lib/collections.js";

/** Prefix of every key and channel. */
export const keyPrefix = "uis:";
export const shardCount = 16;
const cachedAccountsMax = 10_000;

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

export interface ShardKeys {
  readonly index: number;
  readonly format: string;
  readonly live: string;
  readonly leases: string;
  readonly accounts: string;
  readonly bodies: string;
  ended(requestId: string): string;
  refused(requestId: string): string;
  window(account: string, owner: LimitOwner): string;
  running(account: string, owner: LimitOwner): string;
  reserved(account: string, scope: UsageScope): string;
  usageRows(account: string, width: UsageRange["width"], startMs: number): string;
  sums(account: string, scope: UsageScope, period: Period): string;
  endpoints(account: string): string;
  endpointHealth(account: string): string;
  readonly responseAccounts: string;
  responses(account: string): string;
  responseTimes(account: string): string;
}

const shards = Array.from({ length: shardCount }, (_, index) => createShardKeys(index));
const shardByAccount = new BoundedMap<string, ShardKeys>(cachedAccountsMax);

/**
 * Every key of this driver and its content. The names are a stored format: changing one requires a new format number.
 *
 * The data of an account is on one of 16 shards, and a shard is one hash tag, so that a step over several keys is one
 * script on one slot of a cluster:
 *
 * ```text
 * uis:{s7}:format                           number of the format that this shard was written in
 * uis:{s7}:live                             hash   request -> MessagePack [account, key or "", model, operation,
 *                                                  admitted at ms, bucket, reserved tokens, reserved nano-dollars,
 *                                                  prompt tokens, completion tokens, owners of its limits, owners whose
 *                                                  tokens were charged, owners whose budgets were charged, answer of
 *                                                  the admission]; an owner is `<kind>:<id>`
 * uis:{s7}:leases                           zset   request -> end of its lease in ms
 * uis:{s7}:end:<request>                    marker of a settled request, 2 h
 * uis:{s7}:refused:<request>                marker of a charged refusal, 70 s
 * uis:{s7}:w:<account>:<kind>:<id>          window: MessagePack list: when it was emptied in ms or 0, then bucket, requests,
 *                                           tokens, the oldest bucket first; bucket = ms / 5000; 70 s after its last charge
 * uis:{s7}:c:<account>:<kind>:<id>          zset   running request -> end of its lease; where concurrency is limited
 * uis:{s7}:b:<account>:<kind>:<id>          hash   reservations of running requests on budgets: r, t, n; 24 h
 * uis:{s7}:h:<account>:<hour>               hash   usage of an hour: `<key or "">|<model>|<sum>`; hour = ms / 3600000; 90 d
 * uis:{s7}:d:<account>:<day>                hash   usage of a day, in the same fields; day = ms / 86400000; 2 years
 * uis:{s7}:p:<account>:<kind>:<id>:<period> hash   sums of a period, and `m<threshold>:<value>` for each reached value;
 *                                                  until 60 d after the period
 * uis:{s7}:accounts                         zset   account -> last day with usage, in ms
 * uis:{s7}:ep:<account>                     hash   endpoint -> `<status>|<event,event>|<most in flight>|<version>|<json>`
 * uis:{s7}:health:<account>                 hash   endpoint -> last success in ms or 0, last failure in ms or 0, failing
 *                                                  since in ms or 0, consecutive failures, permanent failures; with commas
 * uis:{s7}:deliveries                       hash   delivery -> its head as MessagePack list, then for each stored attempt
 *                                                  MessagePack [due at ms after it or 0, JSON list: see
 *                                                  deliveries/encoding.ts]. The head:
 *                                                  [state, account, event, type, endpoint, created at µs, due at µs or 0,
 *                                                  attempts made, retries used, 1 for a manual retry, requester, 1 for a
 *                                                  single attempt, reason or "", ended at ms or 0, replay or "", 1 for
 *                                                  purged, fence of an expired lease or ""]; state: p pending, r awaits
 *                                                  a retry, d delivered, f permanently failed; `claims` has those with
 *                                                  an attempt under way
 * uis:{s7}:events                           hash   event without deliveries yet -> MessagePack [type, time in µs, endpoints,
 *                                                  JSON of the event]
 * uis:{s7}:waiting:<account>                zset   event without deliveries yet -> its time in µs, no two alike
 * uis:{s7}:event_turns                      zset   account with waiting events -> since when it waits for its turn, in µs
 * uis:{s7}:bodies                           hash   delivery -> JSON of its event, until it is purged; the key is the event
 *                                                  id if several deliveries share the body
 * uis:{s7}:body_holders                     hash   event with a shared body -> number of its deliveries that are not purged
 * uis:{s7}:q:<account>:<endpoint>           zset   waiting delivery -> when it is due in µs
 * uis:{s7}:turns                            zset   `<account>:<endpoint>` with a queue -> start of its wait for a turn, or when
 *                                                  its first is due, in µs; 0: the queue is to be emptied; absent while
 *                                                  the endpoint has no free slot
 * uis:{s7}:claims                           zset   claimed delivery -> end of its lease in µs, which is also its fence
 * uis:{s7}:in_flight                        hash   `<account>:<endpoint>` -> number of claimed deliveries
 * uis:{s7}:open:<type>                      zset   open delivery of a type -> when it was created in µs, no two alike
 * uis:{s7}:delivered:<type>                 zset   delivered delivery of a type -> when it was created in µs
 * uis:{s7}:failed:<type>                    zset   permanently failed delivery of a type -> when it was created in µs
 * uis:{s7}:open:<type>:<endpoint>           zset   members of `open:<type>` for one endpoint; also for `delivered` and `failed`
 * uis:{s7}:open_counts                      hash   account -> number of open deliveries
 * uis:{s7}:kept:delivered                   zset   delivered delivery that has its payload -> when it ended in ms
 * uis:{s7}:kept:failed                      zset   permanently failed delivery that has its payload -> when it ended in ms
 * uis:{s7}:purged                           zset   delivery without payload -> when its record is removed, in ms
 * uis:{s7}:responses:<account>              hash   id of a stored response -> `<created at ms> <items> <id of the one before
 *                                                  it or ""> <encrypted content>`
 * uis:{s7}:response_times:<account>         zset   id of a stored response -> when it was created in ms
 * uis:{s7}:response_accounts                zset   account with stored responses -> when the oldest was created in ms, or
 *                                                  earlier
 * ```
 *
 * Sums are int64: `r` requests, `p` prompt tokens, `c` completion tokens, `h` cached tokens, `n` nano-dollars; `t` is
 * prompt and completion tokens together. An account's name has no colon, so these keys are distinct.
 *
 * A delivery is in two sets of `open`, `delivered` or `failed`. An open delivery is also in a queue or in `claims`, an
 * ended one also in `kept:…` or `purged`. Scripts derive the keys of deliveries from the key of the format, because only
 * they can determine the queues that they touch.
 */
export const keySpace = {
  shard(index: number): ShardKeys {
    const keys = shards[index];
    if (keys === undefined) throw new RangeError(`there are ${shardCount} shards, none with the number ${index}`);
    return keys;
  },
  /** The shard of an account. */
  shardOf(account: string): ShardKeys {
    const cached = shardByAccount.get(account);
    if (cached !== undefined) return cached;
    const keys = this.shard(shardIndexOf(account));
    shardByAccount.set(account, keys);
    return keys;
  },
};

/** A stored format: moving an account to another shard would lose its data. */
function shardIndexOf(account: string): number {
  return createHash("sha1").update(account).digest().readUInt16BE(0) % shardCount;
}

function createShardKeys(index: number): ShardKeys {
  const stem = `${keyPrefix}{s${index}}:`;
  return {
    index,
    format: `${stem}format`,
    live: `${stem}live`,
    leases: `${stem}leases`,
    accounts: `${stem}accounts`,
    bodies: `${stem}bodies`,
    ended: (requestId) => `${stem}end:${requestId}`,
    refused: (requestId) => `${stem}refused:${requestId}`,
    window: (account, { kind, id }) => `${stem}w:${account}:${kind}:${id}`,
    running: (account, { kind, id }) => `${stem}c:${account}:${kind}:${id}`,
    reserved: (account, { kind, id }) => `${stem}b:${account}:${kind}:${id}`,
    usageRows: (account, width, startMs) =>
      width === "hour"
        ? `${stem}h:${account}:${Math.floor(startMs / hourMs)}`
        : `${stem}d:${account}:${Math.floor(startMs / dayMs)}`,
    sums: (account, { kind, id }, period) => `${stem}p:${account}:${kind}:${id}:${periodName(period)}`,
    endpoints: (account) => `${stem}ep:${account}`,
    endpointHealth: (account) => `${stem}health:${account}`,
    responseAccounts: `${stem}response_accounts`,
    responses: (account) => `${stem}responses:${account}`,
    responseTimes: (account) => `${stem}response_times:${account}`,
  };
}
