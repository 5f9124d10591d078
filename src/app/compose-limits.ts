import type { Audit } from "../domain/access/audit.js";
import type { Clock, Logger } from "../domain/call/ports.js";
import type { Ledger } from "../domain/metering/ledger.js";
import { LimitBook } from "../domain/metering/limit-book.js";
import { LimitGate } from "../domain/metering/limit-gate.js";
import { LimitsAdmin } from "../domain/metering/limits-admin.js";
import type { State } from "../domain/service/state.js";
import { createSystemClock } from "../lib/clock.js";
import { toRateLimitDefaults } from "./config/rate-limit-settings.js";
import type { Config } from "./config/schema.js";
import type { Lifecycle } from "./lifecycle.js";

export interface LimitsInput {
  readonly config: Pick<Config, "rate_limits">;
  readonly state: State;
  readonly ledger: Ledger;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Everything that says which limits hold; the ledger decides by them. */
export interface Limiting {
  readonly limitBook: LimitBook;
  readonly gate: LimitGate;
  readonly limitsAdmin: LimitsAdmin;
}

/** Resolves when the stored limits are known, or the store did not answer. */
export async function composeLimits(input: LimitsInput): Promise<Limiting> {
  const { config, state, ledger, audit, clock, log, lifecycle } = input;
  const { limits: store, keys, changes } = state;
  // Its one timer is none of a request, so it is not counted among them.
  const bookDeps = { store, changes, clock: createSystemClock(), log };
  const limitBook = new LimitBook(bookDeps, toRateLimitDefaults(config.rate_limits));
  lifecycle.onClose("rate limits", () => limitBook.close());
  await limitBook.refresh();
  const gate = new LimitGate(clock);
  const now = (): number => state.now();
  return { limitBook, gate, limitsAdmin: new LimitsAdmin({ book: limitBook, store, keys, ledger, gate, audit, now }) };
}
