import type { RecordedContent } from "../../domain/call/observer.js";
import {
  type FilteredFields,
  parseRequestCursor,
  passes,
  type RequestCursor,
  type RequestLogEntry,
  type RequestLogStore,
  type RequestRecord,
  requestCursorOf,
} from "../../domain/request-log/request-log-store.js";
import { backgroundTimeoutMs, loadScript, type RedisClient } from "./connection/client.js";
import { documentKeys, fromDocument, positionOf, toDocument } from "./documents.js";

/** Maximum number of members of the sorted sets that one call examines, about 600 kB. */
const examinedMax = 5_000;

const { requestLogs, requestContents, requestLogTimes, requestLogOrder, requestLogCount } = documentKeys;
const appendScript = loadScript("append-request-logs");

/**
 * The request log. Members of its sorted sets contain all fields that a filter compares, so that a search reads only the
 * records that match.
 */
export function createRedisRequestLogStore(client: RedisClient): RequestLogStore {
  const append = (entries: readonly RequestLogEntry[], keep: number, removeMax: number): Promise<number> => {
    const keys = [requestLogs, requestContents, requestLogTimes, requestLogOrder, requestLogCount];
    const args = entries.flatMap(({ record, content }) => [
      record.id,
      positionAndFields(record),
      toDocument(record),
      content === null ? "" : toDocument(content),
    ]);
    return client.run(appendScript, keys, [keep, removeMax, ...args], backgroundTimeoutMs) as Promise<number>;
  };
  const recordsOf = async (ids: readonly string[]): Promise<RequestRecord[]> => {
    if (ids.length === 0) return [];
    const found = await client.command<(string | null)[]>("hmget", [requestLogs, ...ids]);
    // A record may have been removed between the search and this read.
    return found.flatMap((document) => (document === null ? [] : [fromDocument<RequestRecord>(document)]));
  };
  return {
    async append(entries, keep) {
      // Removes up to twice as many records as were added, so that a reduced maximum is reached step by step.
      await append(entries, keep, 2 * entries.length);
    },
    async get(id) {
      const [record] = await recordsOf([id]);
      if (record === undefined) return null;
      const content = await client.command<string | null>("hget", [requestContents, id]);
      return { record, content: content === null ? null : fromDocument<RecordedContent>(content) };
    },
    async list({ filter, limit, after }) {
      const cursor = after === null ? null : parseRequestCursor(after);
      const { fromMs, toMs } = filter;
      const begins = [
        cursor === null ? null : positionOf(cursor.atMs, cursor.id),
        toMs === null ? null : positionOf(toMs, ""),
      ];
      const [begin] = begins.filter((position) => position !== null).sort();
      const range = [begin === undefined ? "+" : `(${begin}`, fromMs === null ? "-" : `[${positionOf(fromMs, "")}`];
      const entries = await client.command<string[]>("zrevrangebylex", [
        requestLogTimes,
        ...range,
        "LIMIT",
        0,
        examinedMax,
      ]);
      // One more than requested shows whether there is a next page.
      const matches: Found[] = [];
      for (const text of entries) {
        const entry = parseMember(text);
        if (passes(entry, filter)) matches.push(entry);
        if (matches.length > limit) break;
      }
      const found = matches.slice(0, limit);
      const last = matches.length > limit ? found.at(-1) : undefined;
      const examined = entries.length < examinedMax ? undefined : entries.at(-1);
      const next = last ?? (examined === undefined ? null : parseMember(examined));
      return {
        records: await recordsOf(found.map(({ id }) => id)),
        next: next === null ? null : requestCursorOf(next),
      };
    },
    async appendedAfter(after, limit) {
      const range = [requestLogOrder, `(${after}`, "+inf", "WITHSCORES", "LIMIT", 0, limit];
      const answer = await client.command<string[]>("zrangebyscore", range);
      const ids = answer.filter((_, position) => position % 2 === 0).map((text) => parseMember(text).id);
      return { records: await recordsOf(ids), last: Number(answer.at(-1) ?? after) };
    },
    newest: async () => Number((await client.command<string | null>("get", [requestLogCount])) ?? 0),
    trim: (keep, max) => append([], keep, max),
  };
}

type Found = RequestCursor & FilteredFields;

export function positionAndFields({ id, receivedAtMs, account, keyId, model, code }: RequestRecord): string {
  return `${positionOf(receivedAtMs, id)} ${JSON.stringify([account, keyId, model, code])}`;
}

function parseMember(member: string): Found {
  const colon = member.indexOf(":");
  const space = member.indexOf(" ");
  const [account, keyId, model, code] = JSON.parse(member.slice(space + 1));
  const receivedAtMs = Number(member.slice(0, colon));
  return { atMs: receivedAtMs, id: member.slice(colon + 1, space), receivedAtMs, account, keyId, model, code };
}
