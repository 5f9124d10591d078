import { describe, expect, it } from "vitest";
import { Affinity, type AffinityInput, affinityKey } from "../../../../src/domain/routing/affinity.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { candidate, type FixedCandidate, seededRandom } from "./routing-fixture.js";

const keys = Array.from({ length: 8_000 }, (_, at) =>
  affinityKey({ account: "a", session: `s${at}`, model: "m", tools: "", beginning: [] }),
);

function eight(): FixedCandidate[] {
  return Array.from({ length: 8 }, (_, at) => candidate(`gpu-${at}/llama`));
}

function homes(deployments: readonly FixedCandidate[]): (string | undefined)[] {
  const affinity = new Affinity(new FakeClock());
  return keys.map((key) => affinity.choose(key, deployments, true)?.id);
}

describe("Affinity", () => {
  it("chooses the same deployment in every process, in whatever order it lists the deployments", () => {
    expect(homes(eight().reverse())).toEqual(homes(eight()));
    // Literal values, because a later version must send keys to the same deployments.
    expect(homes(eight()).slice(0, 4)).toEqual(["gpu-7/llama", "gpu-7/llama", "gpu-3/llama", "gpu-3/llama"]);
  });

  it("spreads keys by weight, within 5 % of a deployment's share", () => {
    const deployments = eight();
    const [heavy] = deployments;
    if (heavy === undefined) throw new Error("no deployment");
    deployments[0] = { ...heavy, weight: 3 };
    const chosen = homes(deployments);
    for (const { id, weight } of deployments) {
      const share = chosen.filter((home) => home === id).length / keys.length;
      expect(Math.abs(share - weight / 10)).toBeLessThan(0.05 * Math.max(0.25, weight / 10));
    }
  });

  it("a removed deployment moves only its own keys: at most 1/8 + 5 % of all", () => {
    const before = homes(eight());
    const after = homes(eight().filter(({ id }) => id !== "gpu-3/llama"));
    const moved = before.filter((home, at) => home !== after[at]);
    expect(new Set(moved)).toEqual(new Set(["gpu-3/llama"]));
    expect(moved.length / keys.length).toBeLessThanOrEqual(1 / 8 + 0.05);
    const targets = new Set(after.filter((home, at) => home !== before[at]));
    expect(targets.size).toBe(7);
  });

  it("during a slow start a deployment gets a part of its own keys and no keys of others", () => {
    const [whole, starting] = [homes(eight()), eight()];
    const [first] = starting;
    if (first === undefined) throw new Error("no deployment");
    first.ejection.share = 0.5;
    const chosen = homes(starting);
    const own = whole.filter((home) => home === first.id).length;
    const back = chosen.filter((home) => home === first.id).length;
    expect(back / own).toBeGreaterThan(0.4);
    expect(back / own).toBeLessThan(0.65);
    expect(chosen.every((home, at) => home !== first.id || whole[at] === first.id)).toBe(true);
  });

  it("skips a deployment above 1.25 times the mean load now and 1.2 times over the last minute, and always chooses the same next one", () => {
    const clock = new FakeClock();
    const affinity = new Affinity(clock);
    const deployments = eight();
    const key = keys[0] ?? 0;
    for (const deployment of deployments) deployment.outstandingRequests = 100;
    const home = affinity.choose(key, deployments, true);
    if (home === null) throw new Error("no choice");
    const choiceAfter = (ms: number, requests: number): FixedCandidate | null => {
      home.outstandingRequests = requests;
      affinity.choose(key, deployments, true);
      clock.advance(ms);
      return affinity.choose(key, deployments, true);
    };
    // With 125, the mean of 826 requests is 103.25, and 1.25 times that is 130.
    expect(choiceAfter(600_000, 125)).toBe(home);
    expect(choiceAfter(1_000, 100)).toBe(home);
    expect(choiceAfter(600_000, 100)).toBe(home);
    expect(choiceAfter(1_000, 140)).toBe(home);
    const next = choiceAfter(600_000, 140);
    expect(next).not.toBe(home);
    expect(next).not.toBeNull();
    expect(choiceAfter(0, 141)).toBe(next);
    expect(choiceAfter(600_000, 100)).toBe(home);
  });

  it("requests of which only one or two run at the same time stay on their deployment", () => {
    const deployments = eight();
    const clock = new FakeClock();
    const affinity = new Affinity(clock);
    for (const key of keys.slice(0, 100)) {
      clock.advance(1_000);
      const home = affinity.choose(key, deployments, true);
      if (home === null) throw new Error("no choice");
      home.outstandingRequests = 2;
      expect(affinity.choose(key, deployments, true)).toBe(home);
      home.outstandingRequests = 0;
    }
  });

  it("the load bound of a deployment is proportional to its weight", () => {
    const [light, heavy] = [candidate("light"), candidate("heavy", { weight: 3 })];
    heavy.outstandingRequests = 30;
    light.outstandingRequests = 15;
    const affinity = new Affinity(new FakeClock());
    for (const key of keys.slice(0, 100)) expect(affinity.choose(key, [light, heavy], true)).toBe(heavy);
  });

  it("a burst of one key is spread: each deployment gets at most twice the mean", () => {
    const deployments = eight();
    const affinity = new Affinity(new FakeClock());
    for (let requests = 1; requests <= 2_000; requests++) {
      const chosen = affinity.choose(42, deployments, true);
      if (chosen === null) throw new Error("no choice");
      chosen.outstandingRequests += 1;
      expect(chosen.outstandingRequests).toBeLessThanOrEqual(Math.max(8, Math.ceil((2 * requests) / 8)));
    }
  });

  it("the deployment of a key with most of the requests has at most 1.25 times the mean in the long run", () => {
    const deployments = eight();
    const clock = new FakeClock();
    const affinity = new Affinity(clock);
    const random = seededRandom(5);
    const running: FixedCandidate[] = [];
    const sums = new Map<FixedCandidate, number>();
    for (let requests = 0; requests < 20_000; requests++) {
      clock.advance(10);
      const [ended] = running.length < 200 ? [] : running.splice(Math.floor(random() * 200), 1);
      if (ended !== undefined) ended.outstandingRequests -= 1;
      const key = random() < 0.6 ? 42 : (keys[Math.floor(random() * keys.length)] ?? 0);
      const chosen = affinity.choose(key, deployments, true);
      if (chosen === null) throw new Error("no choice");
      chosen.outstandingRequests += 1;
      running.push(chosen);
      if (requests < 6_000) continue;
      for (const one of deployments) sums.set(one, (sums.get(one) ?? 0) + one.outstandingRequests);
    }
    const all = [...sums.values()];
    const mean = all.reduce((sum, one) => sum + one) / 8;
    // 200 requests run: 25 on average, and 32 is 1.25 times that, rounded up.
    expect(Math.max(...all) / mean).toBeLessThanOrEqual(32 / 25);
    expect(Math.max(...all) / mean).toBeGreaterThan(1.15);
  });
});

describe("affinityKey", () => {
  const input: AffinityInput = {
    account: "a",
    session: null,
    model: "m",
    tools: "",
    beginning: ["You are", "helpful"],
  };

  it("is computed from account and session if the client sent a session", () => {
    const key = affinityKey({ ...input, session: "s" });
    expect(affinityKey({ ...input, session: "s", model: "other", beginning: [] })).toBe(key);
    expect(affinityKey({ ...input, session: "t" })).not.toBe(key);
    expect(affinityKey({ ...input, session: "s", account: "b" })).not.toBe(key);
    expect(affinityKey({ ...input, account: "as", session: "" })).not.toBe(key);
  });

  it("without a session is computed from model, tools and the first 1,024 characters, and is the same for all accounts", () => {
    const key = affinityKey(input);
    expect(affinityKey({ ...input, account: "b" })).toBe(key);
    expect(affinityKey({ ...input, model: "n" })).not.toBe(key);
    expect(affinityKey({ ...input, tools: "[]" })).not.toBe(key);
    expect(affinityKey({ ...input, beginning: ["You", " are", "helpful"] })).not.toBe(key);
    const long = "x".repeat(1_000);
    const key1024 = affinityKey({ ...input, beginning: [long, "y".repeat(24), "first"] });
    expect(affinityKey({ ...input, beginning: [long, `${"y".repeat(24)}z`, "second"] })).toBe(key1024);
    expect(affinityKey({ ...input, beginning: [long, `${"y".repeat(23)}z`] })).not.toBe(key1024);
  });
});
