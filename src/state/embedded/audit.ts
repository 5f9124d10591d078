import { type AuditPage, type AuditRecord, auditCursorOf, parseAuditCursor } from "../../domain/access/audit.js";
import { columnsOf, type SqliteDatabase } from "./database/sqlite.js";

type AuditRow = Omit<AuditRecord, "actor"> & {
  readonly actorKind: AuditRecord["actor"]["kind"];
  readonly actorId: string;
};

const columns = columnsOf<AuditRow>("id, at_ms, actor_kind, actor_id, address, action, target, result, details_json");

/** Audit records in the database. */
export function createAuditVerbs(db: SqliteDatabase) {
  const append = db.prepare(`INSERT INTO audit (${columns.names}) VALUES (${columns.placeholders})`);
  const page = db.prepare(
    `SELECT * FROM audit WHERE ?1 IS NULL OR (at_ms, id) < (?1, ?2) ORDER BY at_ms DESC, id DESC LIMIT ?3`,
  );
  return {
    reads: {
      listAudit({ limit, after }: { limit: number; after: string | null }): AuditPage {
        const cursor = after === null ? null : parseAuditCursor(after);
        // One more than requested shows whether there is a next page.
        const rows = page.all(cursor?.atMs ?? null, cursor?.id ?? null, limit + 1);
        const records = rows.slice(0, limit).map((row): AuditRecord => {
          const { actorKind, actorId, ...record } = columns.read(row);
          return { ...record, actor: { kind: actorKind, id: actorId } };
        });
        const last = records.at(-1);
        return { records, next: last !== undefined && rows.length > limit ? auditCursorOf(last) : null };
      },
    },
    writes: {
      appendAudit({ actor, ...record }: AuditRecord): void {
        append.run(...columns.values({ ...record, actorKind: actor.kind, actorId: actor.id }));
      },
    },
  };
}
