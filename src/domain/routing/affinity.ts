import type { Clock } from "../call/ports.js";
import { type Candidate, effectiveWeight, hasFreeSlot } from "./pick.js";

/**
 * Bounds of a deployment's running requests as multiples of its share by weight: at the moment, and on average over a
 * minute.
 */
const loadFactor = 1.25;
const recentLoadFactor = 1.2;
const recentMs = 60_000;
/** Bound for a burst, which the average of a minute does not show yet; not applied below the number of requests. */
const burstFactor = 2;
const burstMin = 8;

/** State that is kept for a deployment. */
interface Node {
  readonly hash: number;
  /** Moving average of running requests. */
  recent: number;
  updatedAtMs: number;
}

/**
 * Sends requests with the same affinity key to the same deployment, so that its prefix cache contains the beginning of their
 * prompts. The algorithm is rendezvous hashing with bounded loads: every process computes the same order of deployments from
 * their ids and weights. If a deployment is removed, only its own keys move, and they are spread over the others by weight.
 * During a slow start its keys return gradually as its share of the weight grows.
 *
 * A deployment is skipped when it has more than 1.25 times the mean number of running requests, and more than 1.2 times the
 * mean over the last minute, too. With the first bound alone, random variation would move a fifth of all requests if each
 * deployment runs 8.
 */
export class Affinity {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Weak keys, so that the state of a removed deployment is garbage collected. */
  readonly #nodes = new WeakMap<Candidate, Node>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /**
   * The deployment with the highest score for the key among those that are not overloaded and have a free slot, if one
   * is needed. Null when there is none.
   */
  choose<D extends Candidate>(key: number, deployments: readonly D[], needsSlot: boolean): D | null {
    const nowMs = this.#clock.monotonic();
    let weights = 0;
    let running = 1;
    let recent = 0;
    for (const deployment of deployments) {
      weights += effectiveWeight(deployment);
      running += deployment.outstandingRequests;
      recent += this.#update(deployment, nowMs).recent;
    }
    let best: D | null = null;
    let bestScore = -1;
    for (const deployment of deployments) {
      if (needsSlot && !hasFreeSlot(deployment)) continue;
      const weight = effectiveWeight(deployment);
      const node = this.#nodeOf(deployment, nowMs);
      const share = weight / weights;
      const { outstandingRequests } = deployment;
      const isOver = outstandingRequests >= Math.ceil(loadFactor * running * share);
      const isBurst = outstandingRequests >= Math.max(burstMin, Math.ceil(burstFactor * running * share));
      if (isOver && (isBurst || node.recent > recentLoadFactor * recent * share)) continue;
      const score = -weight / Math.log((mix(key ^ node.hash) + 0.5) / 2 ** 32);
      if (score <= bestScore) continue;
      best = deployment;
      bestScore = score;
    }
    return best;
  }

  #update(deployment: Candidate, nowMs: number): Node {
    const node = this.#nodeOf(deployment, nowMs);
    const newest = 1 - Math.exp((node.updatedAtMs - nowMs) / recentMs);
    node.recent += newest * (deployment.outstandingRequests - node.recent);
    node.updatedAtMs = nowMs;
    return node;
  }

  #nodeOf(deployment: Candidate, nowMs: number): Node {
    let node = this.#nodes.get(deployment);
    if (node === undefined) {
      const hash = mix(hashText(hashStart, deployment.id, deployment.id.length));
      node = { hash, recent: deployment.outstandingRequests, updatedAtMs: nowMs };
      this.#nodes.set(deployment, node);
    }
    return node;
  }
}

/** Input from which the affinity key of a request is computed. */
export interface AffinityInput {
  readonly account: string;
  /** The client's own `prompt_cache_key` or session id; null if it sent none. */
  readonly session: string | null;
  readonly model: string;
  /** The tools as text; empty without tools. */
  readonly tools: string;
  /**
   * Texts from the beginning of the prompt that stay equal while a conversation grows: messages up to the first one of
   * the user, or the prompt of a completion. Only the first 1,024 UTF-16 code units count.
   */
  readonly beginning: readonly string[];
}

const beginningCharsMax = 1_024;

/**
 * Computes a 32-bit key from account and session, or without a session from model, tools and the beginning of the prompt.
 * Takes about 1 ns per character.
 */
export function affinityKey({ account, session, model, tools, beginning }: AffinityInput): number {
  if (session !== null) return mix(hashWhole(hashWhole(hashStart, account), session));
  let hash = hashWhole(hashWhole(hashStart, model), tools);
  let left = beginningCharsMax;
  for (const text of beginning) {
    const length = Math.min(left, text.length);
    hash = hashText(hash, text, length);
    left -= length;
    if (left === 0) break;
    hash = hashText(hash, separator, 1);
  }
  return mix(hash);
}

const hashStart = 0x811c9dc5;
const separator = "\0";

/** Hashes a text and a separator, so that two texts do not have the hash of their concatenation. */
function hashWhole(hash: number, text: string): number {
  return hashText(hashText(hash, text, text.length), separator, 1);
}

/** FNV-1a with 32 bits, over UTF-16 code units. */
function hashText(hash: number, text: string, length: number): number {
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}

/** Spreads the hash over all 32 bits (the last step of MurmurHash3). 0 to 2^32 - 1. */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
