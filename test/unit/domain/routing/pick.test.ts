import { describe, expect, it } from "vitest";
import { pick, rank } from "../../../../src/domain/routing/pick.js";
import { candidate, type FixedCandidate, policyWith, requestOf, seededRandom } from "./routing-fixture.js";

const request = requestOf<FixedCandidate>();

/** Share of the requests that each deployment received while `concurrency` requests of varying size ran. */
function sharesOf(deployments: readonly FixedCandidate[], concurrency: number, requests: number, seed = 1): number[] {
  const random = seededRandom(seed);
  const policy = policyWith({ seed });
  const running: { deployment: FixedCandidate; tokens: number }[] = [];
  const counts = new Map<FixedCandidate, number>();
  for (let i = 0; i < requests; i++) {
    if (running.length === concurrency) {
      const [ended] = running.splice(Math.floor(random() * concurrency), 1);
      if (ended === undefined) throw new Error("no request runs");
      ended.deployment.outstandingRequests -= 1;
      ended.deployment.outstandingTokens -= ended.tokens;
    }
    const tokens = 50 + Math.floor(random() * 400);
    const deployment = pick(deployments, requestOf({ tokens }), policy, true);
    if (deployment === null) throw new Error("no deployment was picked");
    deployment.outstandingRequests += 1;
    deployment.outstandingTokens += tokens;
    running.push({ deployment, tokens });
    counts.set(deployment, (counts.get(deployment) ?? 0) + 1);
  }
  return deployments.map((deployment) => (counts.get(deployment) ?? 0) / requests);
}

describe("pick", () => {
  it("uses the next priority only when no deployment of the current one is usable", () => {
    const [a, b, c] = [candidate("a"), candidate("b"), candidate("c", { priority: 1 })];
    const picked = () => pick([c, a, b], request, policyWith({}), false)?.id;
    a.outstandingTokens = 9_000;
    expect(picked()).toBe("b");
    b.ejection.rank = rank.ejected;
    expect(picked()).toBe("a");
    a.ejection.rank = rank.cooling;
    expect(picked()).toBe("c");
  });

  it("uses the next priority when a slot is needed and no better priority has a free one", () => {
    const full = candidate("full", { slots: 1, outstandingRequests: 1 });
    const next = candidate("next", { priority: 1 });
    expect(pick([full, next], request, policyWith({}), true)).toBe(next);
    expect(pick([full, next], request, policyWith({}), false)).toBe(full);
    next.outstandingRequests = next.slots;
    expect(pick([full, next], request, policyWith({}), true)).toBeNull();
  });

  it("compares deployments by outstanding tokens, not by requests", () => {
    const many = candidate("many", { outstandingRequests: 5, outstandingTokens: 500 });
    const long = candidate("long", { outstandingRequests: 1, outstandingTokens: 8_000 });
    expect(pick([long, many], request, policyWith({}), true)).toBe(many);
  });

  it("compares outstanding tokens relative to the weights", () => {
    const heavy = candidate("heavy", { weight: 4, outstandingRequests: 3, outstandingTokens: 300 });
    const light = candidate("light", { weight: 1, outstandingRequests: 3, outstandingTokens: 250 });
    expect(pick([light, heavy], requestOf({ tokens: 10 }), policyWith({}), true)).toBe(heavy);
  });

  it("breaks ties at random", () => {
    const equals = ["a", "b", "c"].map((id) => candidate(id));
    const random = seededRandom(7);
    const ids = Array.from({ length: 60 }, () => pick(equals, request, { random, affinity: null }, true)?.id);
    for (const { id } of equals) expect(ids.filter((picked) => picked === id).length).toBeGreaterThan(8);
  });

  it.each([1, 2, 8, 32])("two equal deployments get 40 to 60 %% of 300 requests each, %i at a time", (concurrency) => {
    for (const seed of [1, 2, 3]) {
      const [share = 0] = sharesOf([candidate("a"), candidate("b")], concurrency, 300, seed);
      expect(share).toBeGreaterThanOrEqual(0.4);
      expect(share).toBeLessThanOrEqual(0.6);
    }
  });

  it.each([1, 2, 3, 4, 8, 16, 64])("weights of 3 and 1 split requests, %i at a time, to 70 to 80 %%", (concurrency) => {
    for (const seed of [1, 2, 3]) {
      const [share = 0] = sharesOf([candidate("a", { weight: 3 }), candidate("b")], concurrency, 2_000, seed);
      expect(share).toBeGreaterThan(0.7);
      expect(share).toBeLessThan(0.8);
    }
  });

  it("compares all of up to 15 deployments, and two random ones from 16 on", () => {
    const deployments = Array.from({ length: 16 }, (_, at) =>
      candidate(`d${at}`, { outstandingRequests: 5, outstandingTokens: 500 }),
    );
    const [idle] = deployments;
    if (idle === undefined) throw new Error("no deployment");
    idle.outstandingTokens = 0;
    const hits = (count: number): number => {
      const policy = policyWith({});
      const picked = Array.from({ length: 320 }, () => pick(deployments.slice(0, count), request, policy, true));
      return picked.filter((deployment) => deployment === idle).length;
    };
    expect(hits(15)).toBe(320);
    // One of two random ones is the idle one in 2 of 16 cases.
    expect(hits(16)).toBeGreaterThan(20);
    expect(hits(16)).toBeLessThan(60);
  });

  it("balances 24 deployments by weight with two choices", () => {
    const deployments = Array.from({ length: 24 }, (_, at) => candidate(`d${at}`, { weight: at < 12 ? 3 : 1 }));
    for (const concurrency of [1, 24, 240]) {
      const heavy = sharesOf(deployments, concurrency, 4_000).slice(0, 12);
      expect(heavy.reduce((sum, share) => sum + share)).toBeGreaterThan(0.7);
      expect(heavy.reduce((sum, share) => sum + share)).toBeLessThan(0.8);
    }
  });

  it("balances 100 deployments by weight with two choices", () => {
    const deployments = Array.from({ length: 100 }, (_, at) => candidate(`d${at}`, { weight: at < 50 ? 3 : 1 }));
    for (const concurrency of [1, 100, 1_000]) {
      const heavy = sharesOf(deployments, concurrency, 4_000).slice(0, 50);
      expect(heavy.reduce((sum, share) => sum + share)).toBeGreaterThan(0.7);
      expect(heavy.reduce((sum, share) => sum + share)).toBeLessThan(0.8);
    }
  });

  it("uses all of 100 deployments except those without a slot, of another priority, already tried, or ejected", () => {
    const unusable = [
      { slots: 0 },
      { priority: 1 },
      { ejection: { rank: rank.ejected, share: 1 } },
      { ejection: { rank: rank.cooling, share: 1 } },
    ];
    const deployments = Array.from({ length: 100 }, (_, at) => candidate(`d${at}`, at < 80 ? unusable[at % 4] : {}));
    const tried = deployments.slice(80, 82);
    const policy = policyWith({});
    const picked = Array.from({ length: 400 }, () => pick(deployments, requestOf({ tried }), policy, true));
    expect(new Set(picked)).toEqual(new Set(deployments.slice(82)));
  });

  it("finds the only usable one of 1,000 deployments, and the only suspects", () => {
    const deployments = Array.from({ length: 1_000 }, (_, at) =>
      candidate(`d${at}`, { ejection: { rank: rank.ejected, share: 1 } }),
    );
    const [, , last] = deployments;
    if (last === undefined) throw new Error("no deployment");
    last.ejection.rank = rank.good;
    expect(pick(deployments, request, policyWith({}), true)).toBe(last);
    for (const deployment of deployments) deployment.ejection = { rank: rank.suspect, share: 0.1 };
    expect(pick(deployments, request, policyWith({}), true)).not.toBeNull();
    expect(pick(deployments, requestOf({ accepts: () => false }), policyWith({}), true)).toBeNull();
  });

  it("examines at most 32 of 1,000 deployments while they work", () => {
    let looks = 0;
    const accepts = (): boolean => {
      looks += 1;
      return true;
    };
    const deployments = Array.from({ length: 1_000 }, (_, at) => candidate(`d${at}`));
    for (let i = 0; i < 100; i++) pick(deployments, requestOf({ accepts }), policyWith({ seed: i }), true);
    expect(looks).toBeLessThanOrEqual(32 * 100);
  });

  it("never tries a deployment twice unless it is the only one that can serve the request", () => {
    const [a, b] = [candidate("a"), candidate("b")];
    expect(pick([a, b], requestOf({ tried: [a] }), policyWith({}), true)).toBe(b);
    expect(pick([a, b], requestOf({ tried: [a, b] }), policyWith({}), true)).toBeNull();
    expect(pick([a], requestOf({ tried: [a] }), policyWith({}), true)).toBe(a);
    expect(pick([a, b], requestOf({ tried: [a], accepts: (given) => given === a }), policyWith({}), true)).toBe(a);
    expect(pick([a, b], requestOf({ accepts: () => false }), policyWith({}), true)).toBeNull();
  });

  it("a failed try does not go to an ejected deployment while the model has a working one", () => {
    const works = candidate("works");
    const ejected = candidate("ejected", { ejection: { rank: rank.ejected, share: 1 } });
    expect(pick([works, ejected], requestOf({ tried: [works] }), policyWith({}), true)).toBeNull();
  });

  it("uses ejected deployments, and after them cooling ones, when all are ejected or cooling", () => {
    const ejected = candidate("ejected", { priority: 1, ejection: { rank: rank.ejected, share: 1 } });
    const cooling = candidate("cooling", { ejection: { rank: rank.cooling, share: 1 } });
    expect(pick([cooling, ejected], request, policyWith({}), true)).toBe(ejected);
    expect(pick([cooling, ejected], requestOf({ tried: [ejected] }), policyWith({}), true)).toBe(cooling);
    expect(pick([cooling], request, policyWith({}), true)).toBe(cooling);
  });

  it("a suspect without load receives its small share of the requests, not all, if there are good deployments", () => {
    const suspect = candidate("suspect", { ejection: { rank: rank.suspect, share: 0.1 } });
    const good = candidate("good", { outstandingRequests: 2, outstandingTokens: 200 });
    const policy = policyWith({});
    const picked = Array.from({ length: 110 }, () => pick([good, suspect], request, policy, true));
    expect(picked.filter((deployment) => deployment === suspect).length).toBe(10);
  });

  it("prefers a good deployment of a later priority to a suspect", () => {
    const suspect = candidate("suspect", { ejection: { rank: rank.suspect, share: 0.1 } });
    const next = candidate("next", { priority: 1 });
    expect(pick([suspect, next], request, policyWith({}), true)).toBe(next);
  });

  it("sends requests of one affinity key to one deployment, and to another one when it has no free slot", () => {
    const deployments = ["a", "b", "c"].map((id) => candidate(id, { slots: 1 }));
    const policy = policyWith({ affinity: true });
    const keyed = requestOf<FixedCandidate>({ affinityKey: 4_711 });
    const home = pick(deployments, keyed, policy, true);
    expect(pick(deployments, keyed, policy, true)).toBe(home);
    if (home !== null) home.outstandingRequests = 1;
    expect(pick(deployments, keyed, policy, true)).not.toBe(home);
    expect(pick(deployments, keyed, policy, true)).not.toBeNull();
  });
});
