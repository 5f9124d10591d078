import { describe, expect, it } from "vitest";
import { endpoint } from "./ledger-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeEndpointStore(open: OpenState): void {
  describe("EndpointStore", () => {
    const harness = eachTest(open);

    it("gives back every field of an account's endpoints, the oldest first", async () => {
      const { endpoints } = harness.state;
      const own = [
        endpoint("we_b", { createdAtMs: 1_000, events: ["request.failed", "usage.threshold_reached"] }),
        endpoint("we_a", { createdAtMs: 2_000, status: "disabled", description: 'it\'s "quoted"' }),
      ];
      for (const each of own.toReversed()) await endpoints.insert(each);
      await endpoints.insert(endpoint("we_c", { account: "other" }));
      expect(await endpoints.list("a")).toEqual(own);
      expect(await endpoints.list("nobody")).toEqual([]);
    });

    it("refuses an id that is taken and keeps the first", async () => {
      const { endpoints } = harness.state;
      await endpoints.insert(endpoint("we_a"));
      const again = endpoints.insert(endpoint("we_a", { url: "https://example.org/other" }));
      await expect(again).rejects.toMatchObject({ code: "conflict" });
      expect(await endpoints.list("a")).toEqual([endpoint("we_a")]);
    });

    it("SEC-22: replaces and removes only what belongs to the account", async () => {
      const { endpoints } = harness.state;
      await endpoints.insert(endpoint("we_a"));
      expect(await endpoints.replace(endpoint("we_a", { account: "other", status: "disabled" }))).toBe(false);
      expect(await endpoints.remove("other", "we_a")).toBe(false);
      expect(await endpoints.list("a")).toEqual([endpoint("we_a")]);
      expect(await endpoints.replace(endpoint("we_a", { status: "disabled" }))).toBe(true);
      expect(await endpoints.list("a")).toEqual([endpoint("we_a", { status: "disabled" })]);
      expect(await endpoints.remove("a", "we_a")).toBe(true);
      expect(await endpoints.list("a")).toEqual([]);
    });

    it("knows at once of an account that has one", async () => {
      const { endpoints } = harness.state;
      await endpoints.insert(endpoint("we_a"));
      expect(endpoints.mayHaveAny("a")).toBe(true);
    });
  });
}
