import { integer } from "../sql-row.js";
import type { SqliteDatabase } from "../sqlite-binding.js";

/**
 * Numbers rise with the time of making, because the store's time never goes back. So a range of time is a range of
 * numbers, and every index that ends with the number also serves times.
 */
export function createCreationOrder(db: SqliteDatabase) {
  const highest = db.prepare("SELECT max(number) AS highest FROM deliveries");
  const atOrAfter = db.prepare(
    "SELECT number, created_at_ms FROM deliveries WHERE number >= ? ORDER BY number LIMIT 1",
  );
  /** The least number that belongs to this time or a later one; above all others when none does. About 20 look-ups. */
  return (atMs: number): number => {
    let low = 0;
    let high = Number(highest.get()?.["highest"] ?? 0) + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = atOrAfter.get(middle);
      if (row === undefined || integer(row, "created_at_ms") >= atMs) high = middle;
      else low = integer(row, "number") + 1;
    }
    return low;
  };
}

export type FirstCreatedAt = ReturnType<typeof createCreationOrder>;
