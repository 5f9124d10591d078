import { randomBytes } from "node:crypto";
import { ApiKeys } from "../../../../src/domain/access/api-keys.js";
import { Authenticator } from "../../../../src/domain/access/authenticator.js";
import { Sessions } from "../../../../src/domain/access/sessions.js";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { ScriptedKeyStore } from "./scripted-key-store.js";

/** The operator's token and the process's token. */
export const adminTokens = ["administrator-token-of-32-letters", "token-of-this-process-1234"];

/** Keys, sessions and the authenticator over one store, connected as in the service. */
export function createAccess() {
  const clock = new FakeClock();
  const state = openMemoryState({ clock });
  const keys = new ScriptedKeyStore(state.keys);
  const lines: string[] = [];
  const note = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Logger = { debug: note, info: note, warn: note, error: note };
  const now = () => clock.now();
  const ids = createRandomIds();
  const sessions = new Sessions({ sessions: state.sessions, now, ids, log });
  const { changes } = state;
  const authenticator = new Authenticator({ keys, sessions, changes, clock, now, adminTokens, log });
  const apiKeys = new ApiKeys({ keys, now, ids, random: randomBytes });
  const present = (authorization: string | undefined, address = "192.0.2.1") =>
    authenticator.authenticate(authorization, address);
  const use = (secret: string, address?: string) => present(`Bearer ${secret}`, address);
  return { clock, state, keys, lines, log, ids, now, sessions, authenticator, apiKeys, present, use };
}
