import type { Audit } from "../domain/access/audit.js";
import type { LiveRequests } from "../domain/call/live-requests.js";
import type { IdSource, Logger } from "../domain/call/ports.js";
import type { Catalog } from "../domain/catalog/catalog.js";
import { Accounting } from "../domain/metering/accounting.js";
import { LeaseKeeper } from "../domain/metering/lease-keeper.js";
import type { Ledger } from "../domain/metering/ledger.js";
import type { LimitBook } from "../domain/metering/limit-book.js";
import { ThresholdAdmin } from "../domain/metering/threshold-admin.js";
import { ThresholdBook } from "../domain/metering/threshold-book.js";
import { UsageQuestions } from "../domain/metering/usage-questions.js";
import { PurgeLoop, type State } from "../domain/service/state.js";
import { createSystemClock } from "../lib/clock.js";
import type { Lifecycle } from "./lifecycle.js";

export interface UsageInput {
  readonly state: State;
  readonly ledger: Ledger;
  readonly limitBook: LimitBook;
  readonly live: LiveRequests;
  readonly catalog: Catalog;
  readonly audit: Audit;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Everything that says what a request has used and what follows from it. */
export interface UsageParts {
  readonly accounting: Accounting;
  readonly usage: UsageQuestions;
  readonly thresholds: ThresholdAdmin;
}

/** Resolves when the thresholds are known, or the store did not answer. */
export async function composeUsage(input: UsageInput): Promise<UsageParts> {
  const { state, ledger, limitBook, live, catalog, audit, ids, log, lifecycle } = input;
  const { keys, usage, thresholds: store, changes, endpoints } = state;
  // Their timers are none of a request, so they are not counted among those.
  const clock = createSystemClock();
  const now = (): number => state.now();
  const book = new ThresholdBook({ store, changes, clock, log });
  lifecycle.onClose("thresholds", () => book.close());
  await book.refresh();
  const accounting = new Accounting({ thresholds: book, endpoints, now });
  const leases = new LeaseKeeper({ ledger, live, accounting, catalog, clock, log });
  lifecycle.onClose("leases", () => leases.close());
  const purge = new PurgeLoop({ state, clock, log });
  lifecycle.onClose("purge", () => purge.close());
  return {
    accounting,
    usage: new UsageQuestions({ usage, ledger, limitBook, clock, now }),
    thresholds: new ThresholdAdmin({ store, keys, usage, audit, ids, now }),
  };
}
