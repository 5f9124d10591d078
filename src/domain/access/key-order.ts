/**
 * The order in which every driver lists API keys: newest first, by id where two were made in the same millisecond. A
 * cursor is the place of one record in that order, so pages stay whole while keys are added.
 */
export interface KeyPlace {
  readonly createdAtMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(key_[0-9A-Za-z]{1,64})$/;

export function cursorOf(place: KeyPlace): string {
  return `${place.createdAtMs}:${place.id}`;
}

/** Null when the text was never a cursor. */
export function parseCursor(cursor: string): KeyPlace | null {
  const [, createdAtMs, id] = cursorForm.exec(cursor) ?? [];
  return createdAtMs === undefined || id === undefined ? null : { createdAtMs: Number(createdAtMs), id };
}

/** Negative when `a` is listed before `b`. */
export function byNewest(a: KeyPlace, b: KeyPlace): number {
  if (a.createdAtMs !== b.createdAtMs) return b.createdAtMs - a.createdAtMs;
  if (a.id === b.id) return 0;
  return a.id > b.id ? -1 : 1;
}
