import { type LimitOwner, type LimitScope, type LimitState, limitSnapshot } from "../../../domain/call/rate-limits.js";
import { type Metric, periodAt } from "../../../domain/events/events.js";
import type { Admission, AdmitRequest, Budget, LimitRefusal, Refused } from "../../../domain/metering/ledger.js";
import { backgroundTimeoutMs } from "../connection/client.js";
import { keySpace, type ShardKeys } from "../connection/key-space.js";
import type { ScriptRunner } from "../connection/scripts.js";
import { Batches, KeyList, ledgerScripts, type TurnBatch } from "./batches.js";

/** Letters of the metrics in `admit.lua`. */
export const letterOfMetric = { requests: "r", tokens: "t", cost: "n" } as const satisfies Record<Metric, string>;

type AdmitAnswer = readonly [
  requestsPlace: number,
  requestsRemaining: number,
  requestsResetMs: number,
  tokensPlace: number,
  tokensRemaining: number,
  tokensResetMs: number,
  what: "admitted" | "ended" | "budget" | LimitRefusal["which"],
  index: number,
  used: number | string,
  waitMs: number,
];

/** Keys and items of one call of `admit.lua`. `nowMs` decides the periods in the names of sums. */
export function encodeAdmissions(
  shard: ShardKeys,
  requests: readonly AdmitRequest[],
  nowMs: number,
): { readonly keys: readonly string[]; readonly items: string } {
  const keys = new KeyList([
    shard.format,
    shard.live,
    shard.leases,
    ...requests.map(({ requestId }) => shard.ended(requestId)),
  ]);
  const scopesOf = scopeEncoder(shard, keys);
  const items = requests.map((request) => [
    request.requestId,
    request.account,
    request.keyId ?? "",
    request.model,
    request.operation,
    request.reserve.tokens,
    request.reserve.costNano,
    request.promptTokens,
    request.leaseMs,
    scopesOf(request),
    request.budgets.map((budget) => encodeBudget(shard, keys, request.account, budget, nowMs)),
  ]);
  return { keys: keys.names, items: JSON.stringify(items) };
}

/**
 * Encodes lists of scopes (limits that apply to a request). Requests of one client share a list, which is encoded once per
 * call.
 */
function scopeEncoder(shard: ShardKeys, keys: KeyList) {
  const known = new Map<AdmitRequest["scopes"], { readonly account: string; readonly encoded: readonly unknown[] }>();
  return ({ account, scopes }: AdmitRequest): readonly unknown[] => {
    const before = known.get(scopes);
    if (before?.account === account) return before.encoded;
    const encoded = scopes.map((scope) => encodeScope(shard, keys, account, scope));
    known.set(scopes, { account, encoded });
    return encoded;
  };
}

function encodeScope(shard: ShardKeys, keys: KeyList, account: string, { owner, limits }: LimitScope) {
  return [
    nameOfOwner(owner),
    keys.indexOf(shard.window(account, owner)),
    limits.concurrency === null ? 0 : keys.indexOf(shard.running(account, owner)),
    limits.requestsPerMinute ?? -1,
    limits.tokensPerMinute ?? -1,
    limits.concurrency ?? -1,
  ];
}

function encodeBudget(shard: ShardKeys, keys: KeyList, account: string, budget: Budget, nowMs: number) {
  const period = periodAt(budget.period, nowMs);
  return [
    nameOfOwner(budget.scope),
    keys.indexOf(shard.sums(account, budget.scope, period)),
    keys.indexOf(shard.reserved(account, budget.scope)),
    letterOfMetric[budget.metric],
    budget.limit.toString(),
    period.endMs,
  ];
}

/** Decodes the answer of `admit.lua` to a request. */
export function decodeAdmission(request: AdmitRequest, answer: unknown, nowMs: number): Admission {
  const [requestsPlace, requestsRemaining, requestsResetMs, tokensPlace, tokensRemaining, tokensResetMs, what, ...why] =
    answer as AdmitAnswer;
  if (what === "ended") return admittedUnlimited;
  const { scopes } = request;
  if (scopes.length === 0 && what === "admitted") return admittedUnlimited;
  const requests = stateOf(scopes[requestsPlace - 1], "requestsPerMinute", requestsRemaining, requestsResetMs);
  const tokens = stateOf(scopes[tokensPlace - 1], "tokensPerMinute", tokensRemaining, tokensResetMs);
  const snapshot = limitSnapshot(requests, tokens);
  if (what === "admitted") return { admitted: true, degraded: false, snapshot };
  const refusal = refusalOf(request, what, why, nowMs);
  return scopes.length === 0
    ? { admitted: false, degraded: false, refusal }
    : { admitted: false, degraded: false, refusal, snapshot };
}

const admittedUnlimited: Admission = Object.freeze({ admitted: true, degraded: false });

function stateOf(
  scope: LimitScope | undefined,
  which: "requestsPerMinute" | "tokensPerMinute",
  remaining: number,
  resetMs: number,
): LimitState | undefined {
  const limit = scope?.limits[which];
  if (scope === undefined || limit === undefined || limit === null) return undefined;
  return { owner: scope.owner, limit, remaining, resetMs };
}

function refusalOf(
  request: AdmitRequest,
  what: "budget" | LimitRefusal["which"],
  [index, used, waitMs]: readonly [index: number, used: number | string, waitMs: number],
  nowMs: number,
): Refused["refusal"] {
  if (what === "budget") return budgetRefusal(request, request.budgets[index - 1] as Budget, BigInt(used), nowMs);
  const { owner, limits } = request.scopes[index - 1] as LimitScope;
  const limit = {
    requests: limits.requestsPerMinute,
    tokens: limits.tokensPerMinute,
    concurrency: limits.concurrency,
  }[what] as number;
  return {
    which: what,
    owner,
    limit,
    used: Number(used),
    requested: what === "tokens" ? request.reserve.tokens : 1,
    retryAfterMs: waitMs < 0 ? null : waitMs,
  };
}

function budgetRefusal({ reserve }: AdmitRequest, budget: Budget, used: bigint, nowMs: number): Refused["refusal"] {
  const { id: thresholdId, metric, limit, period } = budget;
  const requested = { requests: 1, tokens: reserve.tokens, cost: reserve.costNano }[metric];
  const resetsAtMs = periodAt(period, nowMs).endMs;
  return { which: "budget", thresholdId, metric, limit, used, requested: BigInt(requested), resetsAtMs };
}

/** Indexes of the windows, running requests and reservations of owners. A model has no budget. */
export function encodeOwners(shard: ShardKeys, keys: KeyList, account: string, owners: readonly LimitOwner[]) {
  return Object.fromEntries(
    owners.map((owner) => [
      nameOfOwner(owner),
      [
        keys.indexOf(shard.window(account, owner)),
        keys.indexOf(shard.running(account, owner)),
        owner.kind === "model" ? 0 : keys.indexOf(shard.reserved(account, { kind: owner.kind, id: owner.id })),
      ],
    ]),
  );
}

/** Name of an owner of limits, or of a budget, in scripts and records. */
export function nameOfOwner({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}

/** Maximum number of remembered unanswered admissions. Older ones are found by a sweep, which counts them as lost requests. */
const unansweredMax = 10_000;

/**
 * Admissions whose calls timed out. The store may have executed them, or may still do so, although this process rejected
 * their requests or decided them by its local limits. They are reverted, so that no sweep counts them as lost requests a
 * minute later.
 */
export class UnansweredAdmissions {
  readonly #waiting = new Map<string, AdmitRequest>();
  readonly #batches: Batches<AdmitRequest, true>;

  constructor(runner: ScriptRunner, turn: TurnBatch) {
    this.#batches = new Batches(turn, async (index, requests) => {
      const shard = keySpace.shard(index);
      const keys = new KeyList([shard.format, shard.live, shard.leases]);
      const items = requests.map(({ requestId, account, scopes, budgets }) => [
        requestId,
        encodeOwners(shard, keys, account, [...scopes.map(({ owner }) => owner), ...budgets.map(({ scope }) => scope)]),
      ]);
      await runner.run(ledgerScripts.forget, keys.names, [JSON.stringify(items)], backgroundTimeoutMs);
      for (const { requestId } of requests) this.#waiting.delete(requestId);
      return requests.map(() => true as const);
    });
  }

  /** Sent after the admission on the same connection, so the store undoes the admission even before it answers. */
  note(request: AdmitRequest): void {
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size >= unansweredMax && oldest !== undefined) this.#waiting.delete(oldest);
    this.#waiting.set(request.requestId, request);
    this.#takeBack(request).catch(() => {
      // The admission stays in the list for `takeAllBack`.
    });
  }

  /** Called when a repeated admission was answered: it is no longer unanswered. */
  answered(requestId: string): void {
    this.#waiting.delete(requestId);
  }

  /** Reverts all unanswered admissions. Rejects with `storage_unavailable` while the store does not answer. */
  async takeAllBack(): Promise<void> {
    await Promise.all([...this.#waiting.values()].map((request) => this.#takeBack(request)));
  }

  #takeBack(request: AdmitRequest): Promise<true> {
    return this.#batches.ask(keySpace.shardOf(request.account).index, request);
  }
}
