import { describe, expect, it } from "vitest";
import { type EndpointRecord, freshHealth } from "../../src/domain/webhooks/endpoint-store.js";
import { endpoint } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const endpointsMax = 20;

export function describeEndpointStore(open: OpenState): void {
  describe("EndpointStore", () => {
    const harness = eachTest(open);
    const insert = (record: EndpointRecord): Promise<boolean> => harness.state.endpoints.insert(record, endpointsMax);
    const kept = (record: EndpointRecord) => ({ record, health: freshHealth });

    it("returns every field of an account's endpoints, oldest first", async () => {
      const { endpoints } = harness.state;
      const own = [
        endpoint("we_b", {
          createdAtMs: 1_000,
          updatedAtMs: 1_234,
          events: ["request.failed", "usage.threshold_reached"],
          maxInFlight: 64,
          secrets: [
            { sealed: "v1.new|:\n", hint: "1234", expiresAtMs: null },
            { sealed: "v1.old", hint: "abc=", expiresAtMs: 2 ** 41 },
          ],
        }),
        endpoint("we_a", {
          createdAtMs: 2_000,
          url: "https://example.org/naïve?x=|",
          status: "disabled",
          disabledReason: "failing",
          description: 'it\'s "quoted" | 日本',
        }),
      ];
      for (const each of own.toReversed()) expect(await insert(each)).toBe(true);
      await insert(endpoint("we_c", { account: "other" }));
      expect(await endpoints.list("a")).toEqual(own.map(kept));
      expect(await endpoints.list("nobody")).toEqual([]);
      for (const each of own) expect(await endpoints.find("a", each.id)).toEqual(kept(each));
      expect(await endpoints.find("a", "we_none")).toBeNull();
    });

    it("rejects an id that exists and keeps the first endpoint", async () => {
      await insert(endpoint("we_a"));
      await expect(insert(endpoint("we_a", { url: "https://example.org/other" }))).rejects.toMatchObject({
        code: "conflict",
      });
      expect(await harness.state.endpoints.list("a")).toEqual([kept(endpoint("we_a"))]);
    });

    it("enforces an account's maximum, also for simultaneous inserts (WH-4)", async () => {
      const { endpoints } = harness.state;
      const ids = Array.from({ length: 8 }, (_, number) => `we_${number}`);
      const answers = await Promise.all(ids.map((id) => endpoints.insert(endpoint(id), 5)));
      expect(answers.filter((isKept) => isKept)).toHaveLength(5);
      expect(await endpoints.list("a")).toHaveLength(5);
      expect(await endpoints.insert(endpoint("we_b", { account: "b" }), 5)).toBe(true);
      const [first] = await endpoints.list("a");
      await endpoints.remove("a", first?.record.id ?? "");
      expect(await endpoints.insert(endpoint("we_more"), 5)).toBe(true);
    });

    it("replaces an endpoint only if its newest version was read, so that no update is lost", async () => {
      const { endpoints } = harness.state;
      await insert(endpoint("we_a"));
      const second = endpoint("we_a", { version: 2, url: "https://example.org/second", updatedAtMs: 2_000 });
      expect(await endpoints.replace(second)).toBe("replaced");
      expect(await endpoints.replace(endpoint("we_a", { version: 2, description: "late" }))).toBe("changed");
      expect(await endpoints.replace(endpoint("we_a", { version: 4 }))).toBe("changed");
      expect(await endpoints.replace(endpoint("we_none", { version: 2 }))).toBe("unknown");
      expect(await endpoints.list("a")).toEqual([kept(second)]);
      const both = ["third", "other third"].map((description) =>
        endpoints.replace(endpoint("we_a", { version: 3, description })),
      );
      expect((await Promise.all(both)).toSorted()).toEqual(["changed", "replaced"]);
    });

    it("finds, replaces and removes only endpoints of the account (SEC-22)", async () => {
      const { endpoints } = harness.state;
      await insert(endpoint("we_a"));
      const stolen = endpoint("we_a", { account: "other", version: 2, status: "disabled", disabledReason: "by_hand" });
      expect(await endpoints.find("other", "we_a")).toBeNull();
      expect(await endpoints.replace(stolen)).toBe("unknown");
      expect(await endpoints.remove("other", "we_a")).toBe(false);
      expect(await endpoints.list("other")).toEqual([]);
      expect(await endpoints.list("a")).toEqual([kept(endpoint("we_a"))]);
    });

    it("no longer returns removed endpoints", async () => {
      const { endpoints } = harness.state;
      await insert(endpoint("we_a"));
      expect(await endpoints.remove("a", "we_a")).toBe(true);
      expect(await endpoints.remove("a", "we_a")).toBe(false);
      expect(await endpoints.find("a", "we_a")).toBeNull();
      expect(await endpoints.list("a")).toEqual([]);
      expect(await endpoints.replace(endpoint("we_a", { version: 2 }))).toBe("unknown");
    });

    it("reports without delay that an account has an endpoint", async () => {
      const { endpoints } = harness.state;
      await insert(endpoint("we_a"));
      expect(endpoints.mayHaveAny("a")).toBe(true);
    });
  });
}
