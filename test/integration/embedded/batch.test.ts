import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
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

let dataDir: string;
let db: SqliteDatabase;
let runBatch: (requests: readonly Request[]) => readonly Outcome[];
const executed: string[] = [];

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-batch-"));
  db = openStateFile(dataDir).db;
  const run = createRunBatch(recorded(db), createVerbs(db));
  runBatch = (requests) => run(requests, true);
  executed.length = 0;
});
afterEach(async () => {
  db.close();
  await rm(dataDir, { recursive: true });
});

/** The database, which notes each transaction statement that runs on it. */
function recorded(database: SqliteDatabase): SqliteDatabase {
  return {
    exec(sql) {
      executed.push(sql);
      database.exec(sql);
    },
    prepare(sql) {
      const statement = database.prepare(sql);
      return Object.assign(Object.create(statement), {
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

  it("rejects one write and keeps the others", () => {
    const outcomes = runBatch([insert(1), insert(1), insert(2), find(2)]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true, true]);
    expect(outcomes[1]).toMatchObject({ sqlite: sqliteCodes.CONSTRAINT });
  });

  it("sums the usage of settlements of one line, and omits a rejected one", () => {
    const facts = { account: "a", keyId: "k", promptTokens: 1, completionTokens: 2, cachedTokens: 0, costNano: 3 };
    const settle = (requestId: string, model: string | null) =>
      ({
        verb: "settle",
        values: [{ requestId, model, event: null, thresholds: [], ...facts }, 1_000, 1_000, false],
      }) as const;
    const outcomes = runBatch([settle("r1", "m"), settle("r2", null), settle("r3", "m"), settle("r1", "m")]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true, true]);
    expect(outcomes[3]).toMatchObject({ value: { duplicate: true } });
    const day = { kind: "day", startMs: 0, endMs: 86_400_000 };
    expect(runBatch([{ verb: "used", values: ["a", { kind: "key", id: "k" }, day] }])).toMatchObject([
      { value: { requests: 2n, promptTokens: 2n, completionTokens: 4n, costNano: 6n } },
    ]);
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
