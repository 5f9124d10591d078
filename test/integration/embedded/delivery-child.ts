/**
 * A process that opens the state in a directory, creates deliveries and works on them endlessly. Arguments: the directory,
 * the number of the first delivery, the length of leases in ms. Before it ends attempts it sends a message with their
 * claims, and afterwards a message with the acknowledged ends. It keeps its second claim, like a worker that hangs.
 */
import process from "node:process";
import type { Claim } from "../../../src/domain/webhooks/delivery-queue.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { attemptResult, event } from "../../suites/delivery-records.js";
import { endpoint } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";
import { numberedSettlement } from "./ledger-requests.js";

export type FromDeliveryChild =
  | { readonly kind: "made"; readonly numbers: readonly number[] }
  | { readonly kind: "claimed"; readonly claims: readonly Claim[] }
  | { readonly kind: "finished"; readonly ids: readonly string[] };

/** Resolves when the message is written completely. */
const say = (message: FromDeliveryChild): Promise<void> =>
  new Promise((resolve) => process.send?.(message, undefined, {}, () => resolve()));

const { deliveries, endpoints, ledger } = await openEmbeddedState({ dataDir: String(process.argv[2]), log: silentLog });
const from = Number(process.argv[3]);
const leaseMs = Number(process.argv[4]);
if (!endpoints.mayHaveAny("acme")) await endpoints.insert(endpoint("we_1", { account: "acme", maxInFlight: 64 }), 1);

for (let round = 0; ; round++) {
  const numbers = Array.from({ length: 20 }, (_, position) => from + round * 20 + position);
  await Promise.all(numbers.map((number) => ledger.settle(numberedSettlement(number, { event: event(number) }))));
  await say({ kind: "made", numbers });
  const { claims } = await deliveries.claim({ max: 64, leaseMs });
  await say({ kind: "claimed", claims });
  if (round === 1) continue;
  const result = attemptResult();
  const ended = await Promise.all(
    claims.map(async (claim) => {
      const health = await deliveries.finish({ claim, result, outcome: { state: "delivered" } });
      return health === null ? [] : [claim.deliveryId];
    }),
  );
  await say({ kind: "finished", ids: ended.flat() });
}
