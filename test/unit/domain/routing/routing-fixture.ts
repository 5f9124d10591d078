import { Affinity } from "../../../../src/domain/routing/affinity.js";
import type { Ejection } from "../../../../src/domain/routing/ejection.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import {
  type Candidate,
  evenlySpread,
  type PickPolicy,
  type Rank,
  type RoutedRequest,
  rank,
} from "../../../../src/domain/routing/pick.js";
import { type RoutedDeployment, WaitingRoom } from "../../../../src/domain/routing/waiting-room.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { seededPick } from "../../../support/random-numbers.js";

/** Random numbers from 0 to below 1; the same seed gives the same numbers. */
export function seededRandom(seed: number): () => number {
  const next = seededPick(seed);
  return () => next(2 ** 32) / 2 ** 32;
}

export function policyWith({ seed = 1, affinity = false, clock = new FakeClock() }): PickPolicy {
  return { random: evenlySpread(seededRandom(seed)), affinity: affinity ? new Affinity(clock) : null };
}

export function requestOf<D>(given: Partial<RoutedRequest<D>> = {}): RoutedRequest<D> {
  return {
    owner: { account: "a", keyId: "ka" },
    tokens: 100,
    tried: null,
    failure: null,
    accepts: null,
    affinityKey: null,
    ...given,
  };
}

/** A candidate whose health and load a test sets. */
export interface FixedCandidate extends Candidate {
  outstandingRequests: number;
  outstandingTokens: number;
  ejection: { rank: Rank; share: number };
}

export function candidate(id: string, given: Partial<FixedCandidate> = {}): FixedCandidate {
  return {
    id,
    priority: 0,
    weight: 1,
    slots: 1_000,
    outstandingRequests: 0,
    outstandingTokens: 0,
    ejection: { rank: rank.good, share: 1 },
    ...given,
  };
}

export interface RoomOptions {
  /** Slots of each deployment. */
  readonly slots?: readonly number[];
  readonly weights?: readonly number[];
  readonly waitingMax?: number;
  readonly waitMs?: number;
  readonly seed?: number;
  readonly affinity?: boolean;
}

/** A waiting room for deployments `d0`, `d1` and so on. */
export function roomWith({ slots = [1], weights = [], waitingMax = 4, waitMs = 30_000, ...given }: RoomOptions) {
  const clock = new FakeClock();
  const group = new EjectionGroup(clock);
  const deployments = slots.map((count, at) =>
    routedDeployment(`d${at}`, count, group.add(noChange), weights[at] ?? 1),
  );
  const limits = { queueWaitMs: waitMs };
  const room = new WaitingRoom(clock, { deployments, waitingMax, limits, policy: policyWith({ ...given, clock }) });
  return { clock, group, deployments, limits, room };
}

function routedDeployment(id: string, slots: number, ejection: Ejection, weight: number): RoutedDeployment {
  return { id, priority: 0, weight, slots, outstandingRequests: 0, outstandingTokens: 0, ejection };
}

function noChange(): void {}
