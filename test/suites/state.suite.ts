import { describe, expect, it } from "vitest";
import { describeAuditLog } from "./audit-log.suite.js";
import { describeBudgets } from "./budgets.suite.js";
import { describeCatalogStore } from "./catalog-store.suite.js";
import { describeChangeFeed } from "./change-feed.suite.js";
import { describeDeliveries } from "./deliveries.suite.js";
import { describeEndpointStore } from "./endpoint-store.suite.js";
import { describeKeyStore } from "./key-store.suite.js";
import { describeLedger } from "./ledger.suite.js";
import { describeLimitStore } from "./limit-store.suite.js";
import { describeLimits } from "./limits.suite.js";
import { describeSessionStore } from "./session-store.suite.js";
import { describeSettingsStore } from "./settings-store.suite.js";
import { eachTest, type OpenState } from "./state-harness.js";
import { describeThresholdStore } from "./threshold-store.suite.js";
import { describeThresholds } from "./thresholds.suite.js";
import { describeUsage } from "./usage.suite.js";

export type { OpenState } from "./state-harness.js";

/** What every driver of State does. `open` gives an empty one, which the suite closes. */
export function describeState(name: string, open: OpenState): void {
  describe(`state: ${name}`, () => {
    describeKeyStore(open);
    describeSessionStore(open);
    describeSettingsStore(open);
    describeAuditLog(open);
    describeCatalogStore(open);
    describeLedger(open);
    describeLimits(open);
    describeBudgets(open);
    describeUsage(open);
    describeThresholds(open);
    describeLimitStore(open);
    describeThresholdStore(open);
    describeEndpointStore(open);
    describeDeliveries(open);
    describeChangeFeed(open);

    describe("health", () => {
      const harness = eachTest(open);

      it("reports that it answers, and one process", async () => {
        expect(await harness.state.health()).toMatchObject({ ok: true });
        expect(harness.state.replicas()).toBeGreaterThanOrEqual(1);
      });

      it("its time goes on with the store's", async () => {
        const before = harness.state.now();
        await harness.advance(3_600_000);
        expect(harness.state.now()).toBeGreaterThanOrEqual(before + 3_600_000);
      });
    });
  });
}
