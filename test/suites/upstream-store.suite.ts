import { describe, expect, it } from "vitest";
import { storedUpstream } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeUpstreamStore(open: OpenState): void {
  describe("UpstreamStore", () => {
    const harness = eachTest(open);

    it("returns every field, ordered by name", async () => {
      const { upstreams } = harness.state;
      const all = [
        storedUpstream("GPU-1", {
          url: "https://example.org/naïve|v1",
          kind: "azure",
          apiVersion: "2024-10-21",
          models: ["org/a:b", "c"],
          discoverMs: 1_000,
          sealedKey: "AQID|:\n",
          keyHint: "abc=",
          headers: [
            { name: "x-team", sealed: "BAUG" },
            { name: "x-more", sealed: "'\"" },
          ],
          weight: 1_000,
          priority: 100,
          slots: 65_536,
          version: 7,
          createdAtMs: 2 ** 41,
          updatedAtMs: 2 ** 41 + 1,
        }),
        storedUpstream("a"),
        storedUpstream("b", { discoverMs: null }),
      ];
      for (const each of all.toReversed()) expect(await upstreams.insert(each)).toBe(true);
      expect(await upstreams.list()).toEqual(all);
    });

    it("rejects a name that exists, also for simultaneous inserts, and keeps the first upstream", async () => {
      const { upstreams } = harness.state;
      const urls = ["http://one/v1", "http://two/v1", "http://three/v1"];
      const answers = await Promise.all(urls.map((url) => upstreams.insert(storedUpstream("a", { url }))));
      expect(answers.filter((isKept) => isKept)).toHaveLength(1);
      expect(await upstreams.list()).toEqual([storedUpstream("a", { url: urls[answers.indexOf(true)] ?? "" })]);
    });

    it("replaces an upstream only if its newest version was read, so that no update is lost", async () => {
      const { upstreams } = harness.state;
      await upstreams.insert(storedUpstream("a"));
      const second = storedUpstream("a", { version: 2, url: "http://second/v1", updatedAtMs: 2_000 });
      expect(await upstreams.replace(second)).toBe("replaced");
      expect(await upstreams.replace(storedUpstream("a", { version: 2, weight: 9 }))).toBe("changed");
      expect(await upstreams.replace(storedUpstream("a", { version: 4 }))).toBe("changed");
      expect(await upstreams.replace(storedUpstream("none", { version: 2 }))).toBe("unknown");
      expect(await upstreams.list()).toEqual([second]);
      const both = [3, 4].map((weight) => upstreams.replace(storedUpstream("a", { version: 3, weight })));
      expect((await Promise.all(both)).toSorted()).toEqual(["changed", "replaced"]);
    });

    it("removes an upstream and returns whether it existed", async () => {
      const { upstreams } = harness.state;
      await upstreams.insert(storedUpstream("a"));
      await upstreams.insert(storedUpstream("A"));
      expect(await upstreams.remove("a")).toBe(true);
      expect(await upstreams.remove("a")).toBe(false);
      expect(await upstreams.list()).toEqual([storedUpstream("A")]);
    });
  });

  describe("DrainStore", () => {
    const harness = eachTest(open);

    it("returns the drains ordered by id, and keeps the first drain of a deployment", async () => {
      const { drains } = harness.state;
      const all = ["b/org/model", "a/x y", "a/x y#2"].map((id, i) => ({ id, sinceMs: 2 ** 41 + i }));
      for (const drain of all) expect(await drains.insert(drain)).toBe(true);
      expect(await drains.insert({ id: "a/x y", sinceMs: 5 })).toBe(false);
      expect(await drains.list()).toEqual([all[1], all[2], all[0]]);
    });

    it("removes a drain and returns whether there was one", async () => {
      const { drains } = harness.state;
      await drains.insert({ id: "a/m", sinceMs: 1 });
      expect(await drains.remove("a/m")).toBe(true);
      expect(await drains.remove("a/m")).toBe(false);
      expect(await drains.list()).toEqual([]);
    });
  });
}
