import { describe } from "vitest";
import { describeDeliveryBounds } from "./delivery-bounds.suite.js";
import { describeDeliveryClaims } from "./delivery-claims.suite.js";
import { describeDeliveryEnds } from "./delivery-ends.suite.js";
import { describeDeliveryFairness } from "./delivery-fairness.suite.js";
import { describeDeliveryFanOut } from "./delivery-fan-out.suite.js";
import { describeDeliveryKeeping } from "./delivery-keeping.suite.js";
import { describeDeliveryLists } from "./delivery-lists.suite.js";
import { describeDeliveryModel } from "./delivery-model.suite.js";
import { describeDeliveryReplay } from "./delivery-replay.suite.js";
import { describeDeliveryRetries } from "./delivery-retries.suite.js";
import type { OpenState } from "./state-harness.js";

/** Tests of the queue of deliveries, from the settlement that creates a delivery to the purge that removes it. */
export function describeDeliveries(open: OpenState): void {
  describe("DeliveryQueue", () => {
    describeDeliveryClaims(open);
    describeDeliveryFanOut(open);
    describeDeliveryFairness(open);
    describeDeliveryEnds(open);
    describeDeliveryRetries(open);
    describeDeliveryReplay(open);
    describeDeliveryLists(open);
    describeDeliveryKeeping(open);
    describeDeliveryBounds(open);
    describeDeliveryModel(open);
  });
}
