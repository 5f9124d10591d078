import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createRandomIds } from "../../../src/lib/crypto.js";
import {
  createRunBatch,
  type Outcome,
  type Request,
  type SqliteDatabase,
  type SqlValue,
  sqliteCodes,
} from "../../../src/state/embedded/database/sqlite.js";
import { openStateFile } from "../../../src/state/embedded/database/state-file.js";
import { createVerbs } from "../../../src/state/embedded/verbs.js";
import { keyRecord } from "../../suites/api-key-records.js";
import { settlement, threshold } from "../../support/records.js";
import { settleRequest } from "./ledger-requests.js";

let dataDir: string;
let db: SqliteDatabase;
let runBatch: (requests: readonly Request[]) => readonly Outcome[];
const executed: string[] = [];
/** Statements that were run with `get`. */
const read: string[] = [];

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-batch-"));
  db = openStateFile(dataDir).db;
  const watched = recorded(db);
  const run = createRunBatch(watched, createVerbs(watched));
  runBatch = (requests) => run(requests, true);
  executed.length = 0;
  read.length = 0;
});
afterEach(async () => {
  db.close();
  await rm(dataDir, { recursive: true });
});

/** Wraps the database and records the statements that run on it. */
function recorded(database: SqliteDatabase): SqliteDatabase {
  return {
    exec(sql) {
      executed.push(sql);
      database.exec(sql);
    },
    prepare(sql) {
      const statement = database.prepare(sql);
      return Object.assign(Object.create(statement), {
        get(...values: SqlValue[]) {
          read.push(sql);
          return statement.get(...values);
        },
        run(...values: SqlValue[]) {
          executed.push(sql);
          return statement.run(...values);
        },
      });
    },
    close: () => database.close(),
  };
}

const insert = (number: number) => ({ verb: "insertKey", values: [keyRecord(number)] }) as const;
const find = (number: number) => ({ verb: "findKeyByHash", values: [keyRecord(number).hash] }) as const;

describe("a batch of the embedded state", () => {
  it("commits all its writes together, and reads without a transaction", () => {
    const numbers = Array.from({ length: 50 }, (_, position) => position);
    expect(runBatch(numbers.map(insert)).every(({ ok }) => ok)).toBe(true);
    expect(executed.filter((sql) => sql === "COMMIT")).toHaveLength(1);
    executed.length = 0;
    expect(runBatch(numbers.map(find)).every(({ ok }) => ok)).toBe(true);
    expect(executed).toEqual([]);
  });

  it("rejects a failing write and keeps the other writes", () => {
    const outcomes = runBatch([insert(1), insert(1), insert(2), find(2)]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true, true]);
    expect(outcomes[1]).toMatchObject({ sqlite: sqliteCodes.CONSTRAINT });
  });

  it("sums the usage of settlements of the same account, key, model and hour, without a rejected one", () => {
    const counts = { promptTokens: 1, completionTokens: 2, costNano: 3 };
    const settle = (id: string, model: string) =>
      settleRequest([settlement(id, { keyId: "k", model, ...counts })], 1_000);
    // The table rejects this settlement, because the name of its model is missing.
    const unnamed = null as unknown as string;
    const outcomes = runBatch([settle("r1", "m"), settle("r2", unnamed), settle("r3", "m"), settle("r1", "m")]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true, true]);
    expect(outcomes[3]).toMatchObject({ value: { duplicates: [0] } });
    const day = { kind: "day", startMs: 0, endMs: 86_400_000 };
    expect(runBatch([{ verb: "used", values: ["a", { kind: "key", id: "k" }, day] }])).toMatchObject([
      { value: { requests: 2n, promptTokens: 2n, completionTokens: 4n, costNano: 6n } },
    ]);
  });

  it("reads sums once and not for each of sixteen thresholds (E-31)", () => {
    const requests = Array.from({ length: 30 }, (_, number) => number);
    const readsWith = (count: number, prefix: string): number => {
      // Half of the thresholds are reached.
      const thresholds = Array.from({ length: count }, (_, number) =>
        threshold(`thr_${prefix}${number}`, { limit: number % 2 === 0 ? 1_000_000n : 200n + BigInt(number) }),
      );
      const settlements = requests.map((number) => settlement(`req_${prefix}${number}`, { thresholds }));
      read.length = 0;
      const [outcome] = runBatch([settleRequest(settlements, 1_000)]);
      expect(outcome).toMatchObject({ ok: true, value: { duplicates: [] } });
      return read.filter((sql) => sql.includes("FROM period_sums")).length;
    };
    expect([readsWith(1, "a"), readsWith(16, "b")]).toEqual([1, 1]);
    expect(read.length).toBeLessThan(3 * 16);
  });

  it("writes the markers of settled requests to few pages, because their ids grow with time (E-33)", () => {
    const ids = createRandomIds();
    const logFile = join(dataDir, "uis.db-wal");
    const bytesOf = (newId: () => string): number => {
      const before = statSync(logFile).size;
      for (let batch = 0; batch < 20; batch++) {
        const settlements = Array.from({ length: 50 }, () => settlement(newId()));
        expect(runBatch([settleRequest(settlements, 1_000)])).toMatchObject([{ ok: true }]);
      }
      return statSync(logFile).size - before;
    };
    const fill = (id: string): void =>
      db.exec(`WITH RECURSIVE made (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < 20000)
        INSERT INTO settled (request_id, at_ms) SELECT ${id}, n FROM made`);
    fill("printf('req_%032x', n)");
    fill("'req_' || lower(hex(randomblob(16)))");
    const grown = bytesOf(() => ids.requestId());
    const scattered = bytesOf(() => `req_${randomBytes(16).toString("hex")}`);
    expect(grown).toBeLessThan(scattered / 3);
  });

  it("stops a purge when its time is over, and the next purge continues with the other kinds of records (E-34)", () => {
    const dayMs = 86_400_000;
    const nowMs = 1_000 * dayMs;
    db.exec(`WITH RECURSIVE made (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < 20000)
      INSERT INTO settled (request_id, at_ms) SELECT printf('req_%032x', n), n FROM made;
      INSERT INTO settled (request_id, at_ms) VALUES ('req_zz', ${nowMs});
      INSERT INTO crossings (mark, period_end_ms) VALUES ('thr_1:1:1970-01', 1)`);
    const purge = (max: number, budgetMs: number): unknown => {
      const [outcome] = runBatch([{ verb: "purge", values: [max, nowMs, budgetMs] }]);
      return outcome?.ok ? outcome.value : outcome;
    };
    expect(purge(50_000, 0)).toBe(1_000);
    expect(purge(50_000, 0)).toBe(1_001);
    expect(purge(50_000, 60_000)).toBe(18_000);
    expect(purge(50_000, 60_000)).toBe(0);
  });

  it("fails all its writes on a full disk, continues to read, and writes again when there is space", () => {
    const large = { ...keyRecord(3), name: "x".repeat(100_000) };
    expect(runBatch([insert(1)])).toEqual([{ ok: true, value: undefined }]);
    db.exec("PRAGMA max_page_count = 1");
    const full = { ok: false, sqlite: sqliteCodes.FULL };
    expect(runBatch([insert(2), find(1), { verb: "insertKey", values: [large] }, find(2)])).toMatchObject([
      full,
      { ok: true, value: keyRecord(1) },
      full,
      { ok: true, value: null },
    ]);
    db.exec("PRAGMA max_page_count = 100000");
    expect(runBatch([insert(2), find(2)])).toMatchObject([{ ok: true }, { ok: true, value: keyRecord(2) }]);
  });
});
