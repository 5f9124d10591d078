/** Everything that can be asked of the worker: plain functions on the database, each one atomic step. */
import { createCatalogRows } from "./catalog-rows.js";
import { createKeyRows } from "./key-rows.js";
import type { SqliteDatabase } from "./sqlite-binding.js";

export function createVerbs(db: SqliteDatabase) {
  const keys = createKeyRows(db);
  const catalog = createCatalogRows(db);
  const anyRow = db.prepare("SELECT number FROM migrations LIMIT 1");
  return {
    reads: { findKey: keys.findByHash, listKeys: keys.list, ping: () => anyRow.get() !== undefined },
    writes: {
      insertKey: keys.insert,
      insertFirstKey: keys.insertFirst,
      revokeKey: keys.revoke,
      touchKey: keys.touch,
      firstSeen: catalog.firstSeen,
    },
  };
}

export type Verbs = ReturnType<typeof createVerbs>;
export type Reads = Verbs["reads"];
export type Writes = Verbs["writes"];
