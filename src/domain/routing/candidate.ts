import type { QueueOwner } from "./fair-queue.js";

/** Health of a deployment. A request goes to one of the lowest rank; the higher ranks are used when nothing else is there. */
export const rank = {
  good: 0,
  /** Failing, and in use because half of the model's deployments are ejected already. */
  suspect: 1,
  ejected: 2,
  /** Asked for a pause (Retry-After, or no key of the upstream is usable). */
  cooling: 3,
} as const;

export type Rank = (typeof rank)[keyof typeof rank];

export interface Health {
  readonly rank: Rank;
  /** Share of the weight that counts, above 0 to 1: slow start, slow first tokens, suspicion. */
  readonly share: number;
}

/** A loaded deployment, as routing reads it. */
export interface Candidate {
  readonly id: string;
  /** Lower numbers are used first. */
  readonly priority: number;
  /** Above 0, relative to the model's other deployments. */
  readonly weight: number;
  /** Concurrent requests; 1 or more. */
  readonly slots: number;
  /** Slots in use. */
  readonly outstandingRequests: number;
  /** Estimated tokens that its running requests still have to process. */
  readonly outstandingTokens: number;
  readonly ejection: Health;
}

/** A request, as routing reads it. One object for all its tries. */
export interface RoutedRequest<D> {
  readonly owner: QueueOwner;
  /** Estimated tokens of prompt and answer; 1 or more. */
  readonly tokens: number;
  /** Deployments that were tried already; null: none. */
  readonly tried: readonly D[] | null;
  /** Whether a deployment can serve the request; null: all of them. */
  readonly accepts: ((deployment: D) => boolean) | null;
  /** From `affinityKey`; null without affinity. */
  readonly affinityKey: number | null;
}

export function hasFreeSlot({ outstandingRequests, slots }: Candidate): boolean {
  return outstandingRequests < slots;
}

export function effectiveWeight({ weight, ejection }: Candidate): number {
  return weight * ejection.share;
}
