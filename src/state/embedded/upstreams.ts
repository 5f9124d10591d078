import { existsSync } from "node:fs";
import type { StateChange } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { type Drain, type DrainStore, drainsMax } from "../../domain/catalog/drained-deployments.js";
import { type StoredUpstream, storedUpstreamsMax, type UpstreamStore } from "../../domain/upstreams/upstream-store.js";
import {
  columnsOf,
  integer,
  openSqlite,
  type SqliteDatabase,
  type SqlRow,
  sqliteCode,
  text,
} from "./database/sqlite.js";
import { databaseFile, findLostStore } from "./database/state-file.js";
import type { StoreLink } from "./database/worker-link.js";

const selectUpstreams = "SELECT record_json FROM upstreams ORDER BY name";

function toUpstreams(rows: readonly SqlRow[]): readonly StoredUpstream[] {
  return rows.map((row) => JSON.parse(text(row, "record_json")) as StoredUpstream);
}

/**
 * The upstreams in the file of a stopped service, read without migrating it. Empty if there is no file, if a service uses it,
 * or if its version has no stored upstreams.
 */
export function readStoredUpstreams(dataDir: string): readonly StoredUpstream[] {
  const file = databaseFile(dataDir);
  if (!existsSync(file) || findLostStore(dataDir) !== null) return [];
  let db: SqliteDatabase | null = null;
  try {
    db = openSqlite(file);
    db.exec("PRAGMA busy_timeout = 0");
    return toUpstreams(db.prepare(selectUpstreams).all());
  } catch (error) {
    if (sqliteCode(error) === null) throw error;
    return [];
  } finally {
    db?.close();
  }
}

const drainColumns = columnsOf<Drain>("id, since_ms");

/** Outcome of an insert. */
type Inserted = "inserted" | "taken" | "full";

/** Stored upstreams and drains, in the database. */
export function createUpstreamVerbs(db: SqliteDatabase) {
  const all = db.prepare(selectUpstreams);
  const versionOf = db.prepare("SELECT version FROM upstreams WHERE name = ?");
  const put = db.prepare("INSERT OR REPLACE INTO upstreams (name, version, record_json) VALUES (?, ?, ?)");
  const remove = db.prepare("DELETE FROM upstreams WHERE name = ?");
  const count = db.prepare("SELECT count(*) AS number FROM upstreams");
  const drains = db.prepare(`SELECT ${drainColumns.names} FROM drains ORDER BY id`);
  const drain = db.prepare(`INSERT INTO drains (${drainColumns.names}) VALUES (${drainColumns.placeholders})`);
  const isDrained = db.prepare("SELECT 1 FROM drains WHERE id = ?");
  const undrain = db.prepare("DELETE FROM drains WHERE id = ?");
  const countDrains = db.prepare("SELECT count(*) AS number FROM drains");
  return {
    reads: {
      listUpstreams: (): readonly StoredUpstream[] => toUpstreams(all.all()),
      listDrains: (): readonly Drain[] => drains.all().map((row) => drainColumns.read(row)),
    },
    writes: {
      insertUpstream(upstream: StoredUpstream): Inserted {
        if (versionOf.get(upstream.name) !== undefined) return "taken";
        if (integer(count.get() ?? {}, "number") >= storedUpstreamsMax) return "full";
        put.run(upstream.name, upstream.version, JSON.stringify(upstream));
        return "inserted";
      },
      replaceUpstream(upstream: StoredUpstream): "replaced" | "changed" | "unknown" {
        const row = versionOf.get(upstream.name);
        if (row === undefined) return "unknown";
        if (integer(row, "version") !== upstream.version - 1) return "changed";
        put.run(upstream.name, upstream.version, JSON.stringify(upstream));
        return "replaced";
      },
      removeUpstream: (name: string): boolean => Number(remove.run(name).changes) === 1,
      insertDrain(one: Drain): Inserted {
        if (isDrained.get(one.id) !== undefined) return "taken";
        if (integer(countDrains.get() ?? {}, "number") >= drainsMax) return "full";
        drain.run(...drainColumns.values(one));
        return "inserted";
      },
      removeDrain: (id: string): boolean => Number(undrain.run(id).changes) === 1,
    },
  };
}

type UpstreamLink = StoreLink<ReturnType<typeof createUpstreamVerbs>>;

export function createUpstreamStore(link: UpstreamLink, notify: (change: StateChange) => void): UpstreamStore {
  const changed = (isChanged: boolean): boolean => {
    if (isChanged) notify({ kind: "upstreams" });
    return isChanged;
  };
  return {
    list: () => link.read("listUpstreams"),
    insert: async (upstream) => changed(isInserted(await link.write("insertUpstream", upstream), storedUpstreamsMax)),
    async replace(upstream) {
      const outcome = await link.write("replaceUpstream", upstream);
      changed(outcome === "replaced");
      return outcome;
    },
    remove: async (name) => changed(await link.write("removeUpstream", name)),
  };
}

export function createDrainStore(link: UpstreamLink, notify: (change: StateChange) => void): DrainStore {
  const changed = (isChanged: boolean): boolean => {
    if (isChanged) notify({ kind: "drains" });
    return isChanged;
  };
  return {
    list: () => link.read("listDrains"),
    insert: async (one) => changed(isInserted(await link.write("insertDrain", one), drainsMax)),
    remove: async (id) => changed(await link.write("removeDrain", id)),
  };
}

function isInserted(outcome: Inserted, max: number): boolean {
  if (outcome !== "full") return outcome === "inserted";
  throw new ServiceError("storage_unavailable", `The store holds the maximum of ${max} of these already.`);
}
