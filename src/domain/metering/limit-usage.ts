import { BoundedMap } from "../../lib/bounded-collections.js";
import {
  type LimitOwner,
  type LimitScope,
  type LimitSnapshot,
  type RateLimits,
  windowHealsMs,
} from "../call/rate-limits.js";

const ownersMax = 20_000;

interface OwnerUsage {
  requests: number | null;
  tokens: number | null;
  atMs: number;
}

/**
 * Remaining capacity of each owner as last reported by the shared store. During an outage all replicas together may
 * admit that much until the store's charges have expired (state RL-16).
 */
export class LimitUsage {
  readonly #byOwner = new BoundedMap<string, OwnerUsage>(ownersMax);

  /** Records a report of the store at `nowMs` (monotonic). */
  note({ requests, tokens }: LimitSnapshot, nowMs: number): void {
    if (requests !== undefined) this.#of(requests.owner, nowMs).requests = requests.remaining;
    if (tokens !== undefined) this.#of(tokens.owner, nowMs).tokens = tokens.remaining;
  }

  /** Share of this process in an owner's limits during an outage, with `replicas` processes. */
  shareOf({ owner, limits }: LimitScope, replicas: number, nowMs: number): LimitScope {
    const usage = this.#byOwner.get(nameOf(owner));
    const known = usage !== undefined && nowMs - usage.atMs < windowHealsMs ? usage : null;
    const shared: RateLimits = {
      requestsPerMinute: share(limits.requestsPerMinute, known?.requests ?? null, replicas),
      tokensPerMinute: share(limits.tokensPerMinute, known?.tokens ?? null, replicas),
      concurrency: share(limits.concurrency, null, replicas),
    };
    return { owner, limits: shared };
  }

  #of(owner: LimitOwner, nowMs: number): OwnerUsage {
    const name = nameOf(owner);
    const known = this.#byOwner.get(name);
    if (known !== undefined) {
      known.atMs = nowMs;
      return known;
    }
    const usage = { requests: null, tokens: null, atMs: nowMs };
    this.#byOwner.set(name, usage);
    return usage;
  }
}

function nameOf({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}

/** At least 1 if nothing is known of the limit; 0 if the store had nothing left. */
function share(limit: number | null, remaining: number | null, replicas: number): number | null {
  if (limit === null) return null;
  const even = Math.max(1, Math.floor(limit / replicas));
  return remaining === null ? even : Math.min(even, Math.floor(remaining / replicas));
}
