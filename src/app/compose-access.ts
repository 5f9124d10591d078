import { randomBytes } from "node:crypto";
import { Administrator } from "../domain/access/administrator.js";
import { ApiKeys } from "../domain/access/api-keys.js";
import { Audit } from "../domain/access/audit.js";
import { Authenticator } from "../domain/access/authenticator.js";
import { Passwords } from "../domain/access/passwords.js";
import { RevocationReadBack, RevocationWatch } from "../domain/access/revocation.js";
import { Sessions } from "../domain/access/sessions.js";
import { SetupLinks } from "../domain/access/setup-link.js";
import type { LiveRequests } from "../domain/call/live-requests.js";
import type { Clock, IdSource, Logger } from "../domain/call/ports.js";
import type { State } from "../domain/service/state.js";
import { createSystemClock } from "../lib/clock.js";
import * as passwordHash from "../lib/password-hash.js";
import type { Lifecycle } from "./lifecycle.js";

export interface AccessInput {
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
