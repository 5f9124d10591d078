import { BoundedMap } from "../../lib/collections.js";
import {
  type LimitOwner,
  type LimitScope,
  type LimitSnapshot,
  type RateLimits,
  windowExpiryMs,
} from "../call/rate-limits.js";
import type { Admission } from "./ledger.js";

const ownersMax = 20_000;

interface OwnerUsage {
  requests: number | null;
  tokens: number | null;
  atMs: number;
}

/**
 * Remaining capacity of each owner of limits (key, account or model) as last reported by the shared store. During an outage
 * all replicas together may admit this remaining capacity until the store's charges have expired (state RL-16).
 */
export class LimitUsage {
  readonly #byOwner = new BoundedMap<string, OwnerUsage>(ownersMax);

  /** Records a report of the store at `nowMs` (monotonic). A model's limits apply to each account separately. */
  note(account: string, { requests, tokens }: LimitSnapshot, nowMs: number): void {
    if (requests !== undefined) this.#of(account, requests.owner, nowMs).requests = requests.remaining;
    if (tokens !== undefined) this.#of(account, tokens.owner, nowMs).tokens = tokens.remaining;
  }

  /** Limits that this process applies to an owner during an outage: its share if `replicas` processes use the same store. */
  shareOf(account: string, { owner, limits }: LimitScope, replicas: number, nowMs: number): LimitScope {
    const usage = this.#byOwner.get(nameOf(account, owner));
    const known = usage !== undefined && nowMs - usage.atMs < windowExpiryMs ? usage : null;
    const shared: RateLimits = {
      requestsPerMinute: share(limits.requestsPerMinute, known?.requests ?? null, replicas),
      tokensPerMinute: share(limits.tokensPerMinute, known?.tokens ?? null, replicas),
      concurrency: share(limits.concurrency, null, replicas),
    };
    return { owner, limits: shared };
  }

  #of(account: string, owner: LimitOwner, nowMs: number): OwnerUsage {
    const name = nameOf(account, owner);
    const usage = this.#byOwner.get(name) ?? { requests: null, tokens: null, atMs: nowMs };
    usage.atMs = nowMs;
    this.#byOwner.set(name, usage);
    return usage;
  }
}

function nameOf(account: string, { kind, id }: LimitOwner): string {
  return `${account}:${kind}:${id}`;
}

/** A share of the limit: at least 1 if the current use is unknown; 0 if the limit was used up in the store. */
function share(limit: number | null, remaining: number | null, replicas: number): number | null {
  if (limit === null) return null;
  const even = Math.max(1, Math.floor(limit / replicas));
  return remaining === null ? even : Math.min(even, Math.floor(remaining / replicas));
}

/** Retry-After of a rejection by a share of a limit. */
const shareRetryMs = 5_000;

export function lowered(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, limit - used);
}

/** Replaces the lowered limits in an admission by the configured ones, which the caller is shown. */
export function withConfiguredLimits(admission: Admission, scopes: readonly LimitScope[]): Admission {
  const snapshot = admission.snapshot === undefined ? {} : { snapshot: snapshotWithLimits(admission.snapshot, scopes) };
  if (admission.admitted || admission.refusal.which === "budget") return { ...admission, ...snapshot };
  const { refusal } = admission;
  const limit = limitOf(scopes, refusal.owner, refusal.which) ?? refusal.limit;
  const fits = refusal.requested <= limit;
  const retryAfterMs = refusal.retryAfterMs ?? (fits ? shareRetryMs : null);
  return { ...admission, ...snapshot, refusal: { ...refusal, limit, retryAfterMs } };
}

function snapshotWithLimits({ requests, tokens }: LimitSnapshot, scopes: readonly LimitScope[]): LimitSnapshot {
  const whole = (which: "requests" | "tokens", state: LimitSnapshot["requests"]) =>
    state === undefined ? {} : { [which]: { ...state, limit: limitOf(scopes, state.owner, which) ?? state.limit } };
  return { ...whole("requests", requests), ...whole("tokens", tokens) };
}

const fieldOf = { requests: "requestsPerMinute", tokens: "tokensPerMinute", concurrency: "concurrency" } as const;

function limitOf(scopes: readonly LimitScope[], owner: LimitOwner, which: keyof typeof fieldOf): number | null {
  const scope = scopes.find((other) => other.owner.kind === owner.kind && other.owner.id === owner.id);
  return scope?.limits[fieldOf[which]] ?? null;
}
