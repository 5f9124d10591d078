import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freshHealth } from "../../../src/domain/webhooks/endpoint-store.js";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { openSqlite, type SqliteDatabase } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { anyDelivery } from "../../suites/delivery-records.js";
import { silentLog } from "../../support/silent-log.js";

/** The last migration before deliveries could be sent. */
const stepBefore = 2;

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-migration-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

/** Writes a file in the format of the previous version. */
function writeFormerFile(fill: (db: SqliteDatabase) => void): void {
  const db = openSqlite(databaseFile(dataDir));
  migrate(db, 1_000, stepBefore);
  fill(db);
  db.close();
}

function addEndpoint(db: SqliteDatabase, id: string, status: string): void {
  db.prepare("INSERT INTO endpoints VALUES ('acme', ?, ?, 'naïve 日本', '[\"request.completed\"]', ?, 1000, 2000)").run(
    id,
    `https://example.org/${id}`,
    status,
  );
}

function addDelivery(db: SqliteDatabase, number: number, endpointId: string): void {
  db.prepare(
    `INSERT INTO deliveries (number, id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body)
     VALUES (?1, 'dlv_' || ?1, 'acme', 'evt_' || ?1, 'request.completed', ?2, 'pending', 1000 + ?1, 1000 + ?1, '{"n":' || ?1 || '}')`,
  ).run(BigInt(number), endpointId);
}

describe("a file of the version that stored deliveries without sending them", () => {
  it("keeps its endpoints, which have no secret and no failures yet", async () => {
    writeFormerFile((db) => {
      addEndpoint(db, "we_1", "enabled");
      addEndpoint(db, "we_2", "disabled");
    });
    const state = await openEmbeddedState({ dataDir, log: silentLog });
    const common = { account: "acme", description: "naïve 日本", events: ["request.completed"], maxInFlight: 8 };
    const times = { createdAtMs: 1_000, updatedAtMs: 2_000 };
    const kept = (id: string, changes: object) => ({
      record: { id, url: `https://example.org/${id}`, secrets: [], version: 1, ...common, ...times, ...changes },
      health: freshHealth,
    });
    expect(await state.endpoints.list("acme")).toEqual([
      kept("we_1", { status: "enabled", disabledReason: null }),
      kept("we_2", { status: "disabled", disabledReason: "by_hand" }),
    ]);
    expect(state.endpoints.mayHaveAny("acme")).toBe(true);
    await state.close();
  });

  it("has its stored deliveries sent in order with unchanged bytes, and deliveries without an endpoint ended (WH-31)", async () => {
    writeFormerFile((db) => {
      addEndpoint(db, "we_1", "enabled");
      addEndpoint(db, "we_2", "disabled");
      for (const number of [1, 2, 3]) addDelivery(db, number, "we_1");
      addDelivery(db, 4, "we_2");
      addDelivery(db, 5, "we_gone");
    });
    const state = await openEmbeddedState({ dataDir, log: silentLog });
    expect(await state.deliveries.backlog()).toMatchObject([
      { endpointId: "we_1", open: 3, oldestDueAtMs: 1_001 },
      { endpointId: "we_2", open: 1 },
      { endpointId: "we_gone", open: 1 },
    ]);
    const { claims, nextInMs } = await state.deliveries.claim({ max: 64, leaseMs: 15_000 });
    expect(claims).toMatchObject(
      [1, 2, 3].map((number) => ({ deliveryId: `dlv_${number}`, body: `{"n":${number}}`, attemptNumber: 1 })),
    );
    expect(nextInMs).toBeGreaterThan(0);
    const { deliveries } = await state.deliveries.list(anyDelivery, { limit: 10, after: null });
    expect(deliveries).toMatchObject([
      { id: "dlv_5", state: "permanently_failed", reason: "endpoint_deleted", createdAtMs: 1_005, attempts: [] },
      { id: "dlv_4", state: "permanently_failed", reason: "endpoint_disabled", attemptsMade: 0 },
      { id: "dlv_3", state: "delivery_attempted", reason: null, isPurged: false, replayId: null },
      { id: "dlv_2", state: "delivery_attempted" },
      { id: "dlv_1", state: "delivery_attempted" },
    ]);
    await state.close();
  });
});
