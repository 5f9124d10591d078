import type { CopiedKind } from "../../../domain/service/state-copy.js";
import { keyPrefix } from "../connection/key-space.js";
import type { EntryType } from "./entry.js";

/** Type of a key and the kind of records in it, by the first part of its name behind the hash tag. */
const namesOfDocuments: Readonly<Record<string, readonly [EntryType, CopiedKind]>> = {
  settings: ["hash", "settings"],
  keys: ["hash", "api_keys"],
  key_hashes: ["hash", "api_keys"],
  keys_by_age: ["zset", "api_keys"],
  keys_of: ["zset", "api_keys"],
  key_accounts: ["set", "api_keys"],
  limits: ["hash", "limits"],
  thresholds: ["hash", "thresholds"],
  upstreams: ["hash", "upstreams"],
  drains: ["hash", "drains"],
  models: ["hash", "models_seen"],
  audit: ["zset", "audit"],
  request_logs: ["hash", "request_log"],
  request_contents: ["hash", "request_log"],
  request_log_times: ["zset", "request_log"],
  request_log_order: ["zset", "request_log"],
  request_log_count: ["string", "request_log"],
};

const namesOfShards: Readonly<Record<string, readonly [EntryType, CopiedKind]>> = {
  ep: ["hash", "endpoints"],
  health: ["hash", "endpoints"],
  events: ["hash", "events"],
  waiting: ["zset", "events"],
  event_turns: ["zset", "events"],
  deliveries: ["hash", "deliveries"],
  bodies: ["hash", "deliveries"],
  body_holders: ["hash", "deliveries"],
  q: ["zset", "deliveries"],
  turns: ["zset", "deliveries"],
  open: ["zset", "deliveries"],
  delivered: ["zset", "deliveries"],
  failed: ["zset", "deliveries"],
  open_counts: ["hash", "deliveries"],
  kept: ["zset", "deliveries"],
  purged: ["zset", "deliveries"],
  h: ["hash", "usage_hours"],
  d: ["hash", "usage_days"],
  accounts: ["zset", "usage_days"],
  // These hashes also contain the reported values of thresholds.
  p: ["hash", "period_sums"],
  responses: ["hash", "responses"],
  response_times: ["zset", "responses"],
  response_accounts: ["zset", "responses"],
};

/**
 * Keys that services and copies both write: format of a shard, mark of a copy, reports of processes. They do not show who
 * wrote the other keys.
 */
const neutralNames: ReadonlySet<string> = new Set(["format", "copy", "replicas"]);

/** A key of this driver that a copy writes. */
export interface CopiedKey {
  readonly type: EntryType;
  readonly kind: CopiedKind;
}

/**
 * Describes a key. `neutral`: services and copies write it; `foreign`: only a service writes it, for example a session or a
 * rate limit window.
 */
export function describeKey(name: string): CopiedKey | "neutral" | "foreign" {
  const [, tag = "", first = ""] = keyForm.exec(name) ?? [];
  if (neutralNames.has(first)) return "neutral";
  const [type, kind] = (tag === "k" ? namesOfDocuments : namesOfShards)[first] ?? [];
  return type === undefined || kind === undefined ? "foreign" : { type, kind };
}

const keyForm = new RegExp(`^${keyPrefix}\\{(k|s\\d+)\\}:([a-z_]+)`);

/** Hash tag of a key name, which decides its slot in a cluster: keys with the same tag can be in one command. */
export function tagOf(name: string): string {
  return name.slice(0, name.indexOf("}") + 1);
}
