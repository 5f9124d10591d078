import { Secret } from "../../lib/secret.js";
import type { NativeApi, UpstreamDefinition, UpstreamKind } from "../engine/upstream.js";

/** An upstream that an administrator made while the service runs. */
export interface StoredUpstream {
  /** Unique. */
  readonly name: string;
  readonly url: string;
  readonly kind: UpstreamKind;
  readonly apiVersion: string | null;
  /** Names of the models to offer, under the same ids; empty: those that it lists. */
  readonly models: readonly string[];
  /** Interval at which its models are listed; null: they are not. */
  readonly discoverMs: number | null;
  readonly connectMs: number;
  readonly firstByteMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
  /** Of its deployments, as `priority` and `slots`. */
  readonly weight: number;
  readonly priority: number;
  readonly slots: number;
  /** API families that it receives as they came. Absent: stored by an earlier version, none. */
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

/** Stored upstreams that a store holds. */
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

/** Owner of the sealed key of an upstream, or of one of its headers. */
export function secretOwner(name: string, header: string | null = null): string {
  return header === null ? `upstream/${name}` : `upstream/${name}/${header}`;
}

/** Decrypts a secret sealed for an owner; throws on failure. */
interface SecretOpener {
  open(sealed: string, owner: string): string;
}

/** The definition with decrypted secrets. Throws what `open` throws. A call takes `deadlineMs` at most. */
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
