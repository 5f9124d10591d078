import { randomBytes } from "node:crypto";
import { ApiKeys } from "../../../../src/domain/access/api-keys.js";
import { Authenticator } from "../../../../src/domain/access/authenticator.js";
import type { Logger } from "../../../../src/domain/ports.js";
import { createRandomIds } from "../../../../src/lib/ids.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { ScriptedKeyStore } from "./scripted-key-store.js";

/** The operator's own, and that of the process. */
export const adminTokens = ["administrator-token-of-32-letters", "token-of-this-process-1234"];

/** Keys and their check over one store, wired as the service wires them. */
export function createAccess() {
  const clock = new FakeClock();
  const keys = new ScriptedKeyStore();
  const lines: string[] = [];
  const note = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Logger = { debug: note, info: note, warn: note, error: note };
  const authenticator = new Authenticator({ keys, clock, adminTokens: () => adminTokens, log });
  const apiKeys = new ApiKeys({
    keys,
    clock,
    ids: createRandomIds(),
    random: randomBytes,
    onRevoked: (keyId) => authenticator.forget(keyId),
  });
  const use = (secret: string) => authenticator.authenticate(`Bearer ${secret}`);
  return { clock, keys, lines, authenticator, apiKeys, use };
}
