import type { ServiceError } from "../call/service-error.js";
import type { RoutedOwner } from "./priority-queue.js";

/** Number of deployments from which two random ones are compared instead of all. */
const twoChoicesMin = 16;
/**
 * From this number of deployments on, the two are drawn without examining the others, which would take 0.1 ms for 1,000
 * deployments.
 */
const sampledMin = 64;
/**
 * Maximum number of draws to find two usable deployments. If they do not find two, for example because most are ejected, all
 * deployments are examined.
 */
const drawsMax = 32;

/** Sends requests of one key to one deployment: see Affinity. */
interface AffinityPolicy {
  choose<D extends Candidate>(key: number, deployments: readonly D[], needsSlot: boolean): D | null;
}

export interface PickPolicy {
  /** Numbers from 0 to below 1; one for each pick. */
  readonly random: () => number;
  /** Null: requests are spread by load alone. */
  readonly affinity: AffinityPolicy | null;
}

/**
 * Returns the deployment for the next try of a request; null if it may use none now. Among the deployments with the lowest
 * priority number it takes the one of the request's affinity key, else the one with the fewest outstanding tokens by weight.
 * Ejected and cooling deployments are used only when the model has no others. The same request tries a deployment twice only
 * when no other can serve it.
 */
export function pick<D extends Candidate>(
  deployments: readonly D[],
  request: RoutedRequest<D>,
  policy: PickPolicy,
  needsSlot: boolean,
): D | null {
  const { accepts, affinityKey } = request;
  if (deployments.length >= sampledMin && (affinityKey === null || policy.affinity === null)) {
    const sampled = lessLoadedOfSample(deployments, request, policy.random(), needsSlot);
    if (sampled !== null) return sampled;
  }
  const able = accepts === null ? deployments : deployments.filter(accepts);
  const first = able[0];
  if (first === undefined) return null;
  if (able.length === 1) return needsSlot && !hasFreeSlot(first) ? null : first;
  const group = usableGroup(able, request, needsSlot);
  if (affinityKey !== null && policy.affinity !== null) {
    const preferred = policy.affinity.choose(affinityKey, group, needsSlot);
    if (preferred !== null) return preferred;
  }
  return leastLoaded(needsSlot ? group.filter(hasFreeSlot) : group, request.tokens, policy.random);
}

/**
 * The untried deployments of the priority to use. They have the lowest rank that is left; good deployments and suspects are
 * used together. Deployments without a free slot are included.
 */
function usableGroup<D extends Candidate>(able: readonly D[], request: RoutedRequest<D>, needsSlot: boolean): D[] {
  let lowestRank: number = rank.cooling;
  for (const { ejection } of able) lowestRank = Math.min(lowestRank, ejection.rank);
  // A failed try does not go to an ejected deployment while others work.
  const rankMax = lowestRank <= rank.suspect ? rank.suspect : rank.cooling;
  const usable = able.filter(
    (deployment) => deployment.ejection.rank <= rankMax && request.tried?.includes(deployment) !== true,
  );
  let leader: D | null = null;
  for (const deployment of usable) {
    if (needsSlot && !hasFreeSlot(deployment)) continue;
    if (leader === null || comesBefore(deployment, leader)) leader = deployment;
  }
  if (leader === null) return [];
  const { priority } = leader;
  const { rank: leading } = leader.ejection;
  return usable.filter(
    ({ priority: own, ejection }) =>
      own === priority && (ejection.rank === leading || (leading === rank.good && ejection.rank === rank.suspect)),
  );
}

function comesBefore(a: Candidate, b: Candidate): boolean {
  const difference = a.ejection.rank - b.ejection.rank;
  return difference < 0 || (difference === 0 && a.priority < b.priority);
}

/**
 * Deployments of equal weight are compared by outstanding tokens. Between different weights the request is drawn by weight
 * among those that are not overloaded: under little load, a comparison alone would always choose the same one, which is not
 * the configured share.
 */
function leastLoaded<D extends Candidate>(group: readonly D[], tokens: number, random: () => number): D | null {
  if (group.length < 2) return group[0] ?? null;
  if (group.length >= twoChoicesMin) return lessLoadedOfTwo(group, random());
  const quantum = Math.max(tokens, meanTokens(group));
  let lowestRank: number = rank.cooling;
  for (const { ejection } of group) lowestRank = Math.min(lowestRank, ejection.rank);
  let loadMax = Number.POSITIVE_INFINITY;
  for (const candidate of group) {
    // A suspect that fails immediately has no load, so the load of the others is not compared with it.
    if (candidate.ejection.rank > lowestRank) continue;
    loadMax = Math.min(loadMax, (candidate.outstandingTokens + quantum) / effectiveWeight(candidate));
  }
  const { drawn, rest } = draw(
    group.filter((candidate) => candidate.outstandingTokens / effectiveWeight(candidate) <= loadMax),
    random(),
  );
  const weight = effectiveWeight(drawn);
  let least: D[] = [];
  let leastTokens = Number.POSITIVE_INFINITY;
  for (const candidate of group) {
    if (effectiveWeight(candidate) !== weight || candidate.outstandingTokens > leastTokens) continue;
    if (candidate.outstandingTokens < leastTokens) least = [];
    leastTokens = candidate.outstandingTokens;
    least.push(candidate);
  }
  return least[Math.floor(rest * least.length)] ?? drawn;
}

/** Mean size of the running requests; 0 if there are none. */
function meanTokens(group: readonly Candidate[]): number {
  let requests = 0;
  let tokens = 0;
  for (const { outstandingRequests, outstandingTokens } of group) {
    requests += outstandingRequests;
    tokens += outstandingTokens;
  }
  return requests === 0 ? 0 : tokens / requests;
}

/** Draws two deployments by weight and returns the less loaded one. */
function lessLoadedOfTwo<D extends Candidate>(group: readonly D[], random: number): D {
  const { drawn: first, rest } = draw(group, random);
  const { drawn: second } = draw(
    group.filter((candidate) => candidate !== first),
    rest,
  );
  return lessLoaded(first, second);
}

/** Returns the less loaded deployment, or the first one if both have the same load. */
function lessLoaded<D extends Candidate>(first: D, second: D): D {
  return first.outstandingTokens / effectiveWeight(first) > second.outstandingTokens / effectiveWeight(second)
    ? second
    : first;
}

/**
 * The choice of `lessLoadedOfTwo` in constant time: each draw is uniform, and is accepted with a probability of its weight
 * divided by the largest weight. Null when two deployments are not found: too few draws are usable, or both are suspects.
 */
function lessLoadedOfSample<D extends Candidate>(
  deployments: readonly D[],
  { tried, accepts }: RoutedRequest<D>,
  random: number,
  needsSlot: boolean,
): D | null {
  const { priority, weight } = boundsOf(deployments);
  let first: D | null = null;
  let bits = Math.floor(random * 2 ** 32);
  for (let draws = 0; draws < drawsMax; draws++) {
    const at = (bits / 2 ** 32) * deployments.length;
    // A linear congruential generator (Numerical Recipes) derives further random numbers from the one that a pick has.
    bits = (Math.imul(bits, 1_664_525) + 1_013_904_223) >>> 0;
    const drawn = deployments[Math.floor(at)];
    if (drawn === undefined || drawn === first || drawn.priority !== priority) continue;
    const { ejection } = drawn;
    // A retry multiplies by the share twice, so that it rarely draws another failing deployment.
    const acceptance = effectiveWeight(drawn) * (tried === null ? 1 : ejection.share);
    if (ejection.rank > rank.suspect || (at % 1) * weight >= acceptance) continue;
    if (needsSlot && !hasFreeSlot(drawn)) continue;
    if (tried?.includes(drawn) === true || accepts?.(drawn) === false) continue;
    if (first === null) {
      first = drawn;
      continue;
    }
    if (first.ejection.rank !== rank.good && drawn.ejection.rank !== rank.good) return null;
    return lessLoaded(first, drawn);
  }
  return null;
}

interface Bounds {
  /** The lowest priority number. */
  readonly priority: number;
  /** The largest weight. */
  readonly weight: number;
}

/** Cached by list of deployments: a changed model has a new list. */
const boundsByList = new WeakMap<readonly Candidate[], Bounds>();

function boundsOf(deployments: readonly Candidate[]): Bounds {
  let bounds = boundsByList.get(deployments);
  if (bounds === undefined) {
    bounds = {
      priority: Math.min(...deployments.map(({ priority }) => priority)),
      weight: Math.max(...deployments.map(({ weight }) => weight)),
    };
    boundsByList.set(deployments, bounds);
  }
  return bounds;
}

/** Draws by weight. `rest` is the unused part of the random number, scaled so that it is uniform from 0 to below 1 again. */
function draw<D extends Candidate>(group: readonly D[], random: number): { drawn: D; rest: number } {
  let total = 0;
  for (const candidate of group) total += effectiveWeight(candidate);
  let left = random * total;
  for (const candidate of group) {
    const weight = effectiveWeight(candidate);
    if (left < weight) return { drawn: candidate, rest: left / weight };
    left -= weight;
  }
  // Because of rounding, the number may be slightly larger than the sum of the weights.
  return { drawn: group[group.length - 1] as D, rest: 0 };
}

/**
 * Numbers from 0 to below 1 that are spread evenly even if only a few are drawn, so that a few requests already follow the
 * configured shares: multiples of the golden ratio from a random start.
 */
export function evenlySpread(random: () => number): () => number {
  let last = random();
  return () => {
    last = (last + 0.6180339887498949) % 1;
    return last;
  };
}

/**
 * Health of a deployment. A request goes to a deployment of the lowest rank; higher ranks are used only if there are no
 * others.
 */
export const rank = {
  good: 0,
  /** Failing, and in use because half of the model's deployments are ejected already. */
  suspect: 1,
  ejected: 2,
  /** Paused (by Retry-After, or because no key of the upstream is usable). */
  cooling: 3,
} as const;

export type Rank = (typeof rank)[keyof typeof rank];

export interface Health {
  readonly rank: Rank;
  /**
   * Share of the weight that counts, above 0 to 1. It is below 1 during a slow start, for slow first tokens and for a
   * suspect.
   */
  readonly share: number;
}

/** The fields of a loaded deployment that routing reads. */
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

/** The fields of a request that routing reads. All tries of a request use one object. */
export interface RoutedRequest<D> {
  readonly owner: RoutedOwner;
  /** Estimated tokens of prompt and answer; 1 or more. */
  readonly tokens: number;
  /** Deployments that were tried already; null: none. */
  readonly tried: readonly D[] | null;
  /** Error of the last try; null before one has failed. */
  readonly failure: ServiceError | null;
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
