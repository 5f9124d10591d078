import type { ApiKeyRecord } from "../../../domain/access/key-store.js";
import type { StoredResponse } from "../../../domain/responses/response-store.js";
import type { CopiedKind, CopiedRecords, NumberedRequest } from "../../../domain/service/state-copy.js";
import { freshHealth, type KeptEndpoint } from "../../../domain/webhooks/endpoint-store.js";
import { auditMember } from "../audit.js";
import { keySpace } from "../connection/key-space.js";
import { healthText } from "../deliveries/encoding.js";
import { endpointText } from "../deliveries/endpoints.js";
import { documentKeys as keys, positionOf, toDocument } from "../documents.js";
import { keyText } from "../keys.js";
import { idOf, thresholdText } from "../limits.js";
import { positionAndFields } from "../request-logs.js";
import { responseText } from "../responses.js";
import { deliveryEntries, eventEntries } from "./delivery-entries.js";
import { type Entry, hashEntry, zsetEntry } from "./entry.js";
import { firedEntries, periodEntries, usageEntries } from "./usage-entries.js";

type Encoders = { readonly [K in CopiedKind]: (records: Iterable<CopiedRecords[K]>, nowMs: number) => Iterable<Entry> };

/** What this driver stores for each kind of records. Usage that has expired has no entries. */
const encoders: Encoders = {
  *settings(all) {
    for (const { name, value, version } of all) yield hashEntry(keys.settings, name, toDocument({ version, value }));
  },
  api_keys: keyEntries,
  *limits(all) {
    for (const limits of all) yield hashEntry(keys.limits, idOf(limits.owner), toDocument(limits));
  },
  *thresholds(all) {
    for (const threshold of all) yield hashEntry(keys.thresholds, threshold.id, thresholdText(threshold));
  },
  *upstreams(all) {
    for (const upstream of all) yield hashEntry(keys.upstreams, upstream.name, toDocument(upstream));
  },
  *drains(all) {
    for (const drain of all) yield hashEntry(keys.drains, drain.id, toDocument(drain));
  },
  *models_seen(all) {
    for (const { id, firstSeenAtMs } of all) yield hashEntry(keys.models, id, String(firstSeenAtMs));
  },
  *endpoints(all) {
    for (const endpoint of all) yield* endpointEntries(endpoint);
  },
  events: eventEntries,
  deliveries: deliveryEntries,
  usage_hours: (all, nowMs) => usageEntries("hour", all, nowMs),
  usage_days: (all, nowMs) => usageEntries("day", all, nowMs),
  period_sums: periodEntries,
  fired_thresholds: firedEntries,
  *audit(all) {
    for (const record of all) yield zsetEntry(keys.audit, auditMember(record), 0);
  },
  responses: responseEntries,
  request_log: requestEntries,
};

export function entriesOf<K extends CopiedKind>(kind: K, records: Iterable<CopiedRecords[K]>, nowMs: number) {
  return encoders[kind](records, nowMs);
}

function* keyEntries(all: Iterable<ApiKeyRecord>): Iterable<Entry> {
  const accounts = new Set<string>();
  for (const record of all) {
    const { id, hash, account, createdAtMs } = record;
    const position = positionOf(createdAtMs, id);
    yield hashEntry(keys.keys, id, keyText(record));
    yield hashEntry(keys.keyHashes, hash, id);
    yield zsetEntry(keys.keysByAge, position, 0);
    yield zsetEntry(keys.keysOf(account), position, 0);
    accounts.add(account);
  }
  for (const account of accounts) yield { type: "set", key: keys.keyAccounts, member: account, value: "" };
}

function* endpointEntries({ record, health }: KeptEndpoint): Iterable<Entry> {
  const { account, id } = record;
  const shard = keySpace.shardOf(account);
  yield hashEntry(shard.endpoints(account), id, endpointText(record));
  const text = healthText(health);
  if (text !== healthText(freshHealth)) yield hashEntry(shard.endpointHealth(account), id, text);
}

function* responseEntries(all: Iterable<StoredResponse>): Iterable<Entry> {
  const oldest = new Map<string, number>();
  for (const response of all) {
    const { account, id, createdAtMs } = response;
    const shard = keySpace.shardOf(account);
    yield hashEntry(shard.responses(account), id, responseText(response));
    yield zsetEntry(shard.responseTimes(account), id, createdAtMs);
    oldest.set(account, Math.min(oldest.get(account) ?? createdAtMs, createdAtMs));
  }
  for (const [account, atMs] of oldest) yield zsetEntry(keySpace.shardOf(account).responseAccounts, account, atMs);
}

function* requestEntries(all: Iterable<NumberedRequest>): Iterable<Entry> {
  let last = 0;
  for (const { number, record, content } of all) {
    const member = positionAndFields(record);
    yield hashEntry(keys.requestLogs, record.id, toDocument(record));
    if (content !== null) yield hashEntry(keys.requestContents, record.id, toDocument(content));
    yield zsetEntry(keys.requestLogTimes, member, 0);
    yield zsetEntry(keys.requestLogOrder, member, number);
    last = Math.max(last, number);
  }
  if (last > 0) yield { type: "string", key: keys.requestLogCount, member: "", value: String(last) };
}
