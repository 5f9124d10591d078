import { lastExpiryOf } from "./endpoint-secrets.js";
import type { EndpointHealth, EndpointRecord, KeptEndpoint } from "./endpoint-store.js";

/** An endpoint without its secrets: what doors may tell. */
export interface ShownEndpoint extends Omit<EndpointRecord, "secrets" | "version">, EndpointHealth {
  /** The last four characters of the secret that signs. */
  readonly secretHint: string;
  /** When the last of the replaced secrets stops signing; null: only one signs. */
  readonly previousSecretExpiresAtMs: number | null;
}

/** `nowMs`: store time. */
export function shownEndpoint({ record, health }: KeptEndpoint, nowMs: number): ShownEndpoint {
  const { secrets, version: _, ...told } = record;
  return {
    ...told,
    ...health,
    secretHint: secrets[0]?.hint ?? "",
    previousSecretExpiresAtMs: lastExpiryOf(secrets, nowMs),
  };
}
