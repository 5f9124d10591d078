import { Secret } from "../../lib/secret.js";
import type { NativeApi, UpstreamDefinition, UpstreamKind } from "../engine/upstream.js";

/** An upstream that an administrator created while the service runs, not in the configuration file. */
export interface StoredUpstream {
  /** Unique. */
  readonly name: string;
  readonly url: string;
  readonly kind: UpstreamKind;
  readonly apiVersion: string | null;
  /** Names of the models to offer, under the same ids; empty: all models that the upstream lists. */
  readonly models: readonly string[];
  /** Interval at which its models are listed; null: they are not listed. */
  readonly discoverMs: number | null;
  readonly connectMs: number;
  readonly firstByteMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
  /** `weight`, `priority` and `slots` apply to each deployment of the upstream. */
  readonly weight: number;
  readonly priority: number;
  readonly slots: number;
  /** API families whose requests it receives untranslated. Absent: none, in a record of an earlier version. */
  readonly native?: readonly NativeApi[];
  /** Encrypted for the upstream (USE-16); null: requests have no key. */
  readonly sealedKey: string | null;
  /** The last four characters of the key; empty for a short one. */
  readonly keyHint: string;
  readonly headers: readonly SealedHeader[];
  /** Incremented by every change; `replace` rejects a change of an older version. */
  readonly version: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

interface SealedHeader {
  /** In lower case. */
  readonly name: string;
  /** Its value, encrypted for the upstream and the header. */
  readonly sealed: string;
}

/** Maximum number of stored upstreams. */
export const storedUpstreamsMax = 1_000;

/** Port of the store of upstreams. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface UpstreamStore {
  /** All of them, by name. */
  list(): Promise<readonly StoredUpstream[]>;
  /** False if the name is taken. Rejects with `storage_unavailable` beyond 1,000. */
  insert(upstream: StoredUpstream): Promise<boolean>;
  /** Replaces the previous version only. */
  replace(upstream: StoredUpstream): Promise<"replaced" | "changed" | "unknown">;
  /** False for an unknown name. */
  remove(name: string): Promise<boolean>;
}

/** The name to which the encryption binds a secret: that of an upstream's key, or of one of its headers. */
export function secretOwner(name: string, header: string | null = null): string {
  return header === null ? `upstream/${name}` : `upstream/${name}/${header}`;
}

/** Decrypts a secret that was encrypted for the name `owner` (see `secretOwner`); throws on failure. */
interface SecretOpener {
  open(sealed: string, owner: string): string;
}

/** The definition with decrypted secrets. Throws the errors of `open`. A call to the upstream takes at most `deadlineMs`. */
export function toDefinition(stored: StoredUpstream, secrets: SecretOpener, deadlineMs: number): UpstreamDefinition {
  const { name, url, kind, apiVersion, models, discoverMs, connectMs, firstByteMs, idleMs, totalMs } = stored;
  const { sealedKey, headers, native = [] } = stored;
  return {
    name,
    kind,
    url,
    apiVersion,
    keys: sealedKey === null ? [] : [new Secret(secrets.open(sealedKey, secretOwner(name)))],
    headers: Object.fromEntries(
      headers.map(({ name: header, sealed }) => [header, new Secret(secrets.open(sealed, secretOwner(name, header)))]),
    ),
    discoverMs: models.length > 0 ? null : discoverMs,
    connectMs,
    firstByteMs,
    idleMs,
    totalMs: Math.min(totalMs, deadlineMs),
    tls: { ca: null, cert: null, key: null, serverName: null },
    native,
  };
}
