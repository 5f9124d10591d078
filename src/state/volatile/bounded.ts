import { ServiceError } from "../../domain/call/service-error.js";

/** The store holds no more of something that must not be dropped. */
export function isFull(sizeMax: number, what: string): ServiceError {
  return new ServiceError("storage_unavailable", `The volatile store holds its ${sizeMax} ${what}.`);
}

/**
 * Drops what was put in first once a map holds more than `sizeMax`: a tenth of it at a time, because the first entry of
 * a Map is slow to find behind many that were deleted one by one.
 */
export function dropOldest(map: Map<string, unknown>, sizeMax: number): void {
  if (map.size <= sizeMax) return;
  let toDrop = Math.ceil(sizeMax / 10);
  for (const key of map.keys()) {
    if (toDrop === 0) return;
    map.delete(key);
    toDrop -= 1;
  }
}

/** Deletes at most `max` entries that are too old; how many there were. */
export function purgeMap<T>(map: Map<string, T>, max: number, isTooOld: (value: T) => boolean): number {
  let purged = 0;
  for (const [key, value] of map) {
    if (purged >= max) break;
    if (!isTooOld(value)) continue;
    map.delete(key);
    purged += 1;
  }
  return purged;
}
