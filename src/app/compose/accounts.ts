import { randomBytes } from "node:crypto";
import { Administrator, Passwords, SetupLinks } from "../../domain/access/administrator.js";
import { ApiKeys } from "../../domain/access/api-keys.js";
import { Audit } from "../../domain/access/audit.js";
import { Authenticator } from "../../domain/access/authenticator.js";
import { RevocationReadBack, RevocationWatch } from "../../domain/access/key-cache.js";
import { Sessions } from "../../domain/access/sessions.js";
import type { LiveRequests } from "../../domain/call/live-requests.js";
import type { Clock, IdSource, Logger } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import { Accounting } from "../../domain/metering/accounting.js";
import { LeaseKeeper } from "../../domain/metering/lease-keeper.js";
import type { Ledger } from "../../domain/metering/ledger.js";
import { LimitBook } from "../../domain/metering/limit-book.js";
import { LimitGate } from "../../domain/metering/limit-gate.js";
import { LimitsAdmin } from "../../domain/metering/limits-admin.js";
import { ThresholdAdmin } from "../../domain/metering/threshold-admin.js";
import { ThresholdBook } from "../../domain/metering/threshold-book.js";
import { UsageQuestions } from "../../domain/metering/usage-questions.js";
import { PurgeLoop, type State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import * as passwordHash from "../../lib/crypto.js";
import { toRateLimitDefaults } from "../config/limits-settings.js";
import type { Config } from "../config/schema.js";
import type { Lifecycle } from "../process/lifecycle.js";

interface AccessInput {
  readonly state: State;
  readonly live: LiveRequests;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly adminTokens: readonly string[];
  readonly lifecycle: Lifecycle;
}

/** Everything that decides who calls, and what the administrator does about it. */
export interface Access {
  readonly authenticator: Authenticator;
  readonly apiKeys: ApiKeys;
  readonly sessions: Sessions;
  readonly setupLinks: SetupLinks;
  readonly administrator: Administrator;
  readonly audit: Audit;
}

export function composeAccess({ state, live, clock, ids, log, adminTokens, lifecycle }: AccessInput): Access {
  const { keys, settings, changes } = state;
  const now = (): number => state.now();
  const sessions = new Sessions({ sessions: state.sessions, now, ids, log });
  const setupLinks = new SetupLinks({ settings, now, ids });
  // Its one timer is none of a request, so it is not counted among them.
  const watch = new RevocationWatch({ keys, sessions, live, changes, clock: createSystemClock(), log });
  lifecycle.onClose("revocation watch", () => watch.close());
  const readBack = new RevocationReadBack({ keys, changes, clock: createSystemClock(), log });
  lifecycle.onClose("revocations", () => readBack.close());
  return {
    authenticator: new Authenticator({ keys, sessions, changes, clock, now, adminTokens: () => adminTokens, log }),
    apiKeys: new ApiKeys({ keys, now, ids, random: randomBytes, onRevoked: (record) => readBack.note(record) }),
    sessions,
    setupLinks,
    administrator: new Administrator({ settings, sessions, setupLinks, passwords: new Passwords(passwordHash), clock }),
    audit: new Audit({ records: state.audit, now, ids, log }),
  };
}

interface LimitsInput {
  readonly config: Pick<Config, "rate_limits">;
  readonly state: State;
  readonly ledger: Ledger;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Everything that says which limits hold; the ledger decides by them. */
interface Limiting {
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

interface UsageInput {
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
interface UsageParts {
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
