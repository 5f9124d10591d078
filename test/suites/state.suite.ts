import { describe, expect, it } from "vitest";
import { admission, settlement, storedResponse } from "../support/records.js";
import { byTier } from "../support/tier.js";
import { describeAuditLog } from "./audit-log.suite.js";
import { describeBudgets } from "./budgets.suite.js";
import { describeCatalogStore } from "./catalog-store.suite.js";
import { describeChangeFeed } from "./change-feed.suite.js";
import { describeDeliveries } from "./deliveries.suite.js";
import { describeDeliveryLists } from "./delivery-lists.suite.js";
import { describeDeliveryReplay } from "./delivery-replay.suite.js";
import { describeDeliveryRetries } from "./delivery-retries.suite.js";
import { describeEndpointStore } from "./endpoint-store.suite.js";
import { describeKeyStore } from "./key-store.suite.js";
import { describeLedger } from "./ledger.suite.js";
import { describeLimitStore } from "./limit-store.suite.js";
import { describeLimits } from "./limits.suite.js";
import { describeRequestLogStore } from "./request-log-store.suite.js";
import { describeResponseStore } from "./response-store.suite.js";
import { describeSessionStore } from "./session-store.suite.js";
import { describeSettingsStore } from "./settings-store.suite.js";
import { eachTest, type OpenState } from "./state-harness.js";
import { describeThresholdStore } from "./threshold-store.suite.js";
import { describeThresholds } from "./thresholds.suite.js";
import { describeUpstreamStore } from "./upstream-store.suite.js";
import { describeUsage } from "./usage.suite.js";

export type { OpenState } from "./state-harness.js";

/** Tests of the contract that every driver of State fulfils. `open` returns an empty state, which the suite closes. */
export function describeState(name: string, open: OpenState): void {
  describe(`state: ${name}`, () => {
    describeStores(open);
    describeLimits(open);
    describeBudgets(open);
    describeUsage(open);
    describeThresholds(open);
    describeDeliveries(open);
    describeRequestLogStore(open);
    describeResponseStore(open);
    describeHealth(open);
  });
}

/**
 * Tests of a driver on a further kind of server, for a driver that another file tests with `describeState`. In the tier
 * `long` all tests run; in the tier `ci` only the tests of the stores and, in a cluster, of the placement of keys.
 */
export function describeTopology(name: string, open: OpenState, { isCluster = false } = {}): void {
  byTier({
    long: () => describeState(name, open),
    ci: () =>
      describe(`state: ${name}`, () => {
        describeStores(open);
        if (isCluster) {
          describeUsage(open);
          describeKeysOfOneSlot(open);
          describeDeliveryRetries(open);
          describeDeliveryReplay(open);
          describeDeliveryLists(open);
          describeRequestLogStore(open);
        }
        describeHealth(open);
      }),
  })();
}

/**
 * Tests of a driver whose SQL statements another file tests already. In the tier `long` all tests run; in the tier `ci`
 * only the tests of commits.
 */
export function describeCommits(name: string, open: OpenState): void {
  byTier({
    long: () => describeState(name, open),
    ci: () =>
      describe(`state: ${name}`, () => {
        describeLedger(open);
        describeSettingsStore(open);
        describeChangeFeed(open);
        describeHealth(open);
      }),
  })();
}

function describeStores(open: OpenState): void {
  describeKeyStore(open);
  describeSessionStore(open);
  describeSettingsStore(open);
  describeAuditLog(open);
  describeCatalogStore(open);
  describeLedger(open);
  describeLimitStore(open);
  describeThresholdStore(open);
  describeEndpointStore(open);
  describeUpstreamStore(open);
  describeChangeFeed(open);
}

/** Tests that the keys of each script are on one slot: in a cluster a script whose keys are on several slots fails. */
function describeKeysOfOneSlot(open: OpenState): void {
  describe("keys of one slot", () => {
    const harness = eachTest(open);

    it("limits, rejections, windows and purges touch only keys of one account", async () => {
      const { ledger } = harness.state;
      for (const account of ["a", "b", "c", "d"]) {
        const owner = { kind: "account", id: account } as const;
        const limits = { requestsPerMinute: 2, tokensPerMinute: 1_000, concurrency: 2 };
        const scopes = [{ owner, limits }];
        const requestId = `req_${account}`;
        expect(await ledger.admit(admission(requestId, { account, scopes }))).toMatchObject({ admitted: true });
        await ledger.chargeRefused({ requestId: `${requestId}_refused`, account, keyId: null, scopes });
        expect(await ledger.admit(admission(`${requestId}_2`, { account, scopes }))).toMatchObject({ admitted: false });
        expect(await ledger.inspect(account, scopes)).toMatchObject([{ requests: 2, running: 1 }]);
        await ledger.settle(settlement(requestId, { account }));
        await ledger.resetWindow(account, owner);
        expect(await ledger.inspect(account, scopes)).toMatchObject([{ requests: 0, running: 0 }]);
      }
      expect(await harness.state.purge(1_000)).toBe(0);
    });

    it("stored responses touch only keys of one account", async () => {
      const { responses } = harness.state;
      const accounts = ["a", "b", "c", "d"];
      for (const account of accounts) {
        for (const number of [1, 2, 3]) await responses.put(storedResponse(number, { account }), 2);
        expect(await responses.get(account, "resp_3")).toEqual(storedResponse(3, { account }));
        expect(await responses.conversation(account, "resp_2", { responsesMax: 9, charsMax: 99 })).toHaveLength(1);
        expect(await responses.delete(account, "resp_3")).toBe(true);
      }
      expect(await responses.purge(Number.MAX_SAFE_INTEGER, 100)).toBe(accounts.length);
    });
  });
}

function describeHealth(open: OpenState): void {
  describe("health", () => {
    const harness = eachTest(open);

    it("reports that it answers and that one process is connected", async () => {
      expect(await harness.state.health()).toMatchObject({ ok: true });
      expect(harness.state.replicas()).toBeGreaterThanOrEqual(1);
    });

    it("the reported time advances with the time of the store", async () => {
      const before = harness.state.now();
      await harness.advance(3_600_000);
      expect(harness.state.now()).toBeGreaterThanOrEqual(before + 3_600_000);
    });
  });
}
