export type EntryType = "hash" | "zset" | "set" | "string";

/** One field of a hash, one member of a sorted set or a set, or a whole string. */
export interface Entry {
  readonly type: EntryType;
  readonly key: string;
  /** Empty for a string. */
  readonly member: string;
  /** Value of a hash field or string; of a sorted set the score in decimal. Empty for a set. */
  readonly value: string | Buffer;
  /** When the whole key expires; absent: never. */
  readonly expiresAtMs?: number;
}

export function hashEntry(key: string, member: string, value: string | Buffer, expiresAtMs?: number): Entry {
  return { type: "hash", key, member, value, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) };
}

export function zsetEntry(key: string, member: string, score: number): Entry {
  return { type: "zset", key, member, value: String(score) };
}
