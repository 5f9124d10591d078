import type { Deployment } from "../catalog/deployment.js";
import type { StoredUpstream } from "./upstream-store.js";
import type { UpstreamSource } from "./upstreams-in-use.js";

/** An upstream without its secrets, for transports. */
export interface ShownUpstream
  extends Omit<StoredUpstream, "sealedKey" | "headers" | "version" | "createdAtMs" | "updatedAtMs"> {
  readonly source: "config" | "stored";
  /** Whether a stored upstream of the same name is ignored. */
  readonly hidesStored: boolean;
  readonly keyCount: number;
  readonly headerNames: readonly string[];
  /** Message about a problem of the upstream; null if there is none. */
  readonly problem: string | null;
  /** Sorted by id. */
  readonly deployments: readonly Deployment[];
  /** Null for an upstream of the configuration; so is `updatedAtMs`. */
  readonly createdAtMs: number | null;
  readonly updatedAtMs: number | null;
}

/** The current problem and deployments of an upstream. */
type Present = Pick<ShownUpstream, "problem" | "deployments">;

/** Of shorter keys nothing is shown, because four characters would be too large a part of them. */
const hintedCharsMin = 16;

/** The last four characters of a key; empty for a short one. */
export function hintOf(key: string): string {
  return key.length < hintedCharsMin ? "" : key.slice(-4);
}

export function shownStored(stored: StoredUpstream, present: Present): ShownUpstream {
  const { sealedKey, headers, version: _, ...shown } = stored;
  const headerNames = headers.map(({ name }) => name);
  return {
    ...shown,
    ...present,
    source: "stored",
    hidesStored: false,
    keyCount: sealedKey === null ? 0 : 1,
    headerNames,
  };
}

export function shownConfigured(source: UpstreamSource, hidesStored: boolean, present: Present): ShownUpstream {
  const { definition, ...offer } = source;
  const { keys, headers, tls: _tls, ...settings } = definition;
  return {
    ...settings,
    ...offer,
    ...present,
    source: "config",
    hidesStored,
    keyCount: keys.length,
    keyHint: hintOf(keys[0]?.reveal() ?? ""),
    headerNames: Object.keys(headers),
    createdAtMs: null,
    updatedAtMs: null,
  };
}
