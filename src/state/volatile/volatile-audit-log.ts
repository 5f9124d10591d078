import type { AuditLog, AuditRecord } from "../../domain/access/audit.js";
import { dropOldest, purgeMap } from "./bounded.js";

const recordsMax = 10_000;
const keptMs = 400 * 24 * 60 * 60 * 1_000;

export interface VolatileAuditLog extends AuditLog {
  /** Forgets at most `max` that are older than 400 days; how many. */
  purge(nowMs: number, max: number): number;
}

/** The last 9,000 records at least. */
export function createVolatileAuditLog(): VolatileAuditLog {
  const byId = new Map<string, AuditRecord>();
  return {
    async append(record) {
      byId.set(record.id, record);
      dropOldest(byId, recordsMax);
    },
    async list({ limit, after }) {
      const sorted = [...byId.values()].sort((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1));
      const rest = after === null ? sorted : sorted.filter((record) => placeOf(record) < after);
      const records = rest.slice(0, limit);
      const last = records.at(-1);
      return { records, next: last !== undefined && rest.length > limit ? placeOf(last) : null };
    },
    purge: (nowMs, max) => purgeMap(byId, max, ({ atMs }) => atMs < nowMs - keptMs),
  };
}

/** A text that sorts as the record does; it is the cursor, too. */
function placeOf({ atMs, id }: AuditRecord): string {
  return `${String(atMs).padStart(16, "0")}:${id}`;
}
