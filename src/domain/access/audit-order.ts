/**
 * The order in which every driver lists audit records: newest first, by id where two were made in the same millisecond.
 * A cursor is the place of one record in that order.
 */
import type { AuditRecord } from "./audit-log.js";

export interface AuditPlace {
  readonly atMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(aud_[0-9A-Za-z]{1,64})$/;

export function auditCursorOf({ atMs, id }: AuditRecord): string {
  return `${atMs}:${id}`;
}

/** Null when the text was never a cursor. */
export function parseAuditCursor(cursor: string): AuditPlace | null {
  const [, atMs, id] = cursorForm.exec(cursor) ?? [];
  return atMs === undefined || id === undefined ? null : { atMs: Number(atMs), id };
}
