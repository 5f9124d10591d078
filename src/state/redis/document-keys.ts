/**
 * Where documents lie: all on one slot of a cluster, so that one step can touch several. The spellings are kept data.
 *
 * ```text
 * uis:{k}:keys               hash  key id -> JSON
 * uis:{k}:key_hashes         hash  SHA-256 of the secret -> key id
 * uis:{k}:keys_by_age        zset  places of keys, all with score 0: creation in ms as 16 digits, a colon, key id
 * uis:{k}:keys_of:<account>  zset  the same, of one account
 * uis:{k}:key_accounts       set   accounts that have keys
 * uis:{k}:sessions           hash  session id -> JSON
 * uis:{k}:session_hashes     hash  SHA-256 of the token -> session id
 * uis:{k}:settings           hash  name -> JSON
 * uis:{k}:limits             hash  <kind>:<id> -> JSON
 * uis:{k}:thresholds         hash  threshold id -> JSON
 * uis:{k}:models             hash  model id -> first seen in ms
 * uis:{k}:audit              zset  audit records, all with score 0: instant in ms as 16 digits, a colon, id, a space, JSON
 * uis:{k}:replicas           zset  name of a running process -> when it was last heard of, in ms
 * ```
 *
 * Endpoints lie with their account (see `key-space`). JSON documents carry `v`, the number of their form.
 */
export function documentKeys(prefix: string) {
  const stem = `${prefix}{k}:`;
  return {
    keys: `${stem}keys`,
    keyHashes: `${stem}key_hashes`,
    keysByAge: `${stem}keys_by_age`,
    keysOf: (account: string) => `${stem}keys_of:${account}`,
    keyAccounts: `${stem}key_accounts`,
    sessions: `${stem}sessions`,
    sessionHashes: `${stem}session_hashes`,
    settings: `${stem}settings`,
    limits: `${stem}limits`,
    thresholds: `${stem}thresholds`,
    models: `${stem}models`,
    audit: `${stem}audit`,
    replicas: `${stem}replicas`,
  };
}

export type DocumentKeys = ReturnType<typeof documentKeys>;

/** Sorts as text like the instants and ids that it is made of. */
export function placeOf(atMs: number, id: string): string {
  return `${String(atMs).padStart(16, "0")}:${id}`;
}

/** What `placeOf` was made of. */
export function parsePlace(place: string): { readonly createdAtMs: number; readonly id: string } {
  const colon = place.indexOf(":");
  return { createdAtMs: Number(place.slice(0, colon)), id: place.slice(colon + 1) };
}
