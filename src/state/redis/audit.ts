import { type AuditLog, type AuditRecord, auditCursorOf, parseAuditCursor } from "../../domain/access/audit.js";
import type { RedisClient } from "./connection/client.js";
import { documentKeys, fromDocument, positionOf, toDocument } from "./documents.js";

const keptForMs = 400 * 24 * 3_600_000;
/** Maximum number of records, some 500 bytes each: half a gigabyte. Beyond it the oldest are removed, whatever their age. */
const recordsMax = 1_000_000;
const key = documentKeys.audit;

export function auditMember(record: AuditRecord): string {
  return `${positionOf(record.atMs, record.id)} ${toDocument(record)}`;
}

/** Members of the sorted set begin with their position, so they are in the order of time. */
export function createRedisAuditLog(client: RedisClient) {
  const log: AuditLog = {
    async append(record) {
      await client.command("zadd", [key, 0, auditMember(record)]);
    },
    async list({ limit, after }) {
      const cursor = after === null ? null : parseAuditCursor(after);
      const begin = cursor === null ? "+" : `(${positionOf(cursor.atMs, cursor.id)}`;
      // One more than requested shows whether there is a next page.
      const members = await client.command<string[]>("zrevrangebylex", [key, begin, "-", "LIMIT", 0, limit + 1]);
      const found = members.map((member) => fromDocument<AuditRecord>(member.slice(member.indexOf(" ") + 1)));
      const records = found.slice(0, limit);
      const last = records.at(-1);
      return { records, next: last !== undefined && found.length > limit ? auditCursorOf(last) : null };
    },
  };
  return {
    log,
    /** Removes at most `max` records that are expired or too many, and returns their number. */
    async purge(nowMs: number, max: number): Promise<number> {
      if (max <= 0) return 0;
      const before = `(${positionOf(Math.max(0, nowMs - keptForMs), "")}`;
      const old = await client.command<string[]>("zrangebylex", [key, "-", before, "LIMIT", 0, max]);
      if (old.length > 0) return client.command<number>("zrem", [key, ...old]);
      const surplus = (await client.command<number>("zcard", [key])) - recordsMax;
      return surplus <= 0 ? 0 : client.command<number>("zremrangebyrank", [key, 0, Math.min(surplus, max) - 1]);
    },
  };
}
