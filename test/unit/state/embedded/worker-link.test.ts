import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import type { Settlement } from "../../../../src/domain/metering/ledger.js";
import { WorkerLink } from "../../../../src/state/embedded/database/worker-link.js";
import { eventually } from "../../../support/eventually.js";
import { settlement, threshold } from "../../../support/records.js";

const lines: string[] = [];
const note = (_: object, message: string) => void lines.push(message);
const log = { debug: note, info: note, warn: note, error: note };

const workers: Worker[] = [];
afterEach(async () => {
  lines.length = 0;
  await Promise.all(workers.splice(0).map((worker) => worker.terminate()));
});

/** A worker thread that reports that the database is open and then handles each batch with the given JavaScript function. */
function workerThat(onBatch: string, first = '{ kind: "opened", warnings: [] }'): Worker {
  const script = `
    const { parentPort } = require("node:worker_threads");
    const answer = (outcome) => (message) =>
      parentPort.postMessage({ kind: "outcomes", outcomes: message.requests.map(() => outcome) });
    parentPort.on("message", (message) => (message.kind === "close" ? parentPort.close() : (${onBatch})(message)));
    parentPort.postMessage(${first});`;
  const worker = new Worker(script, { eval: true });
  workers.push(worker);
  return worker;
}

const waiting = (of: Settlement) => ({ settlement: of, nowMs: 5, endedAtMs: 5, hasRow: false, wantsSums: false });

describe("WorkerLink", () => {
  it("rejects all requests with storage_unavailable when the thread dies, and logs it once", async () => {
    const link = await WorkerLink.open(workerThat('() => { throw new Error("a fault"); }'), log);
    const asked = await Promise.allSettled([link.read("ping"), link.read("ping"), link.write("touchKey", "key_1", 1)]);
    const later = await Promise.allSettled([link.read("ping")]);
    for (const outcome of [...asked, ...later]) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "storage_unavailable" } });
    }
    await link.close();
    expect(lines).toEqual(["the store's thread has ended unexpectedly"]);
  });

  it("rejects requests when the thread ends without an error", async () => {
    const link = await WorkerLink.open(workerThat("() => process.exit(0)"), log);
    await expect(link.read("ping")).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(link.read("ping")).rejects.toMatchObject({ code: "storage_unavailable" });
    await link.close();
  });

  it("limits the number of calls that wait for a slow store", async () => {
    const worker = workerThat("() => {}");
    const link = await WorkerLink.open(worker, log);
    const asked = Promise.allSettled(Array.from({ length: 10_001 }, () => link.read("ping")));
    await expect(link.read("ping")).rejects.toMatchObject({ code: "storage_unavailable" });
    await worker.terminate();
    expect((await asked).every(({ status }) => status === "rejected")).toBe(true);
  });

  it("rejects with different errors for a full disk, an existing record and an internal fault", async () => {
    const answers = [
      [13, { code: "storage_unavailable", message: expect.stringContaining("the disk is full") }],
      [19, { code: "conflict" }],
      [null, { name: "Error", message: expect.stringContaining("rubbish") }],
    ] as const;
    for (const [sqlite, error] of answers) {
      const outcome = JSON.stringify({ ok: false, message: "rubbish", sqlite });
      const link = await WorkerLink.open(workerThat(`answer(${outcome})`), log);
      await expect(link.write("touchKey", "key_1", 1)).rejects.toMatchObject(error);
      await link.close();
    }
  });

  it("logs one line while writing fails, and stores the cause", async () => {
    const link = await WorkerLink.open(workerThat('answer({ ok: false, message: "full", sqlite: 13 })'), log);
    for (let round = 0; round < 3; round++) await expect(link.write("touchKey", "key_1", 1)).rejects.toThrow();
    expect(link.writeFault).toBe("the disk is full");
    expect(lines).toEqual(["the store cannot be written"]);
    await link.close();
  });

  it("reports that the store can be written again only after a probe, because other writes may change nothing (E-21)", async () => {
    // The first write and the first probe fail.
    const answers = "{ touchKey: [13, null], probe: [13, null] }";
    const answer = `(message) => {
      globalThis.left ??= ${answers};
      const outcomes = message.requests.map(({ verb }) => {
        const sqlite = left[verb].length > 1 ? left[verb].shift() : left[verb][0];
        return sqlite === null ? { ok: true, value: null } : { ok: false, message: "full", sqlite };
      });
      parentPort.postMessage({ kind: "outcomes", tookMs: 0, outcomes });
    }`;
    const link = await WorkerLink.open(workerThat(answer), log);
    await expect(link.write("touchKey", "key_1", 1)).rejects.toThrow();
    await link.write("touchKey", "key_1", 1);
    expect(link.writeFault).toBe("the disk is full");
    await eventually(async () => {
      await link.write("touchKey", "key_1", 1);
      return link.writeFault === null;
    });
    expect(lines).toEqual(["the store cannot be written", "the store can be written again"]);
    await link.close();
  });

  it("sends rows of running requests once, with the next batch or in a separate unsynced batch", async () => {
    const link = await WorkerLink.open(
      workerThat(
        "(message) => parentPort.postMessage({ kind: 'outcomes', outcomes: message.requests.map(({ verb }) => ({ ok: true, value: [verb, message.isSynced, message.requests.length] })) })",
      ),
      log,
    );
    const row = {
      requestId: "req_1",
      account: "a",
      keyId: null,
      model: "m",
      operation: "create_chat_completion",
      admittedAtMs: 0,
      promptTokens: 0,
      completionTokens: 0,
    } as const;
    link.carry(row);
    link.nudge();
    link.carry(row);
    const written = link.write("touchKey", "key_1", 1);
    expect(await written).toEqual(["touchKey", true, 2]);
    expect(await link.read("ping")).toEqual(["ping", false, 1]);
    await link.close();
    expect(lines).toEqual([]);
  });

  it("sends the settlements of one tick as one request, and reports repeated settlements and reached thresholds individually", async () => {
    const link = await WorkerLink.open(
      workerThat(
        `(message) => parentPort.postMessage({ kind: "outcomes", outcomes: message.requests.map(({ values }) => {
          const { rows, thresholds } = JSON.parse(values[0]);
          const crossed = [[1, thresholds[rows[1][12][1]].map(({ id, limit }) => id + limit)]];
          return { ok: true, value: { duplicates: [rows.length - 1], crossed, sums: [], hasDue: false } };
        }) })`,
      ),
      log,
    );
    const settle = (id: string, changes: Partial<Settlement> = {}) => link.settle(waiting(settlement(id, changes)));
    const thresholds = [threshold("thr_1")];
    const settled = await Promise.all([settle("req_1"), settle("req_2", { thresholds }), settle("req_1")]);
    expect(settled).toMatchObject([
      { duplicate: false, crossed: [] },
      { duplicate: false, crossed: ["thr_11000"] },
      { duplicate: true, crossed: [] },
    ]);
    await link.close();
    await expect(settle("req_3")).rejects.toMatchObject({ code: "storage_unavailable" });
  });

  it("reduces the size of batches until one takes about ten milliseconds, and increases it again afterwards (E-36)", async () => {
    // Takes a tenth of a millisecond for each settlement. The first result contains the size of the batch.
    const link = await WorkerLink.open(
      workerThat(
        `(message) => {
          const [size] = message.requests.map(({ values }) => JSON.parse(values[0]).rows.length);
          const batch = { duplicates: [], crossed: [[0, [String(size)]]], sums: [], hasDue: false };
          parentPort.postMessage({ kind: "outcomes", outcomes: [{ ok: true, value: batch }], tookMs: size / 10 });
        }`,
      ),
      log,
    );
    const settle = (number: number) => link.settle(waiting(settlement(`req_${number}`)));
    const sizesOf = async (count: number): Promise<number[]> => {
      const settled = await Promise.all(Array.from({ length: count }, (_, number) => settle(number)));
      return settled.flatMap((row) => (row?.crossed ?? []).map(Number));
    };
    const [first, ...others] = await sizesOf(3_000);
    expect(first).toBe(1_000);
    expect(Math.max(...others)).toBeLessThanOrEqual(200);
    expect(others.reduce((sum, size) => sum + size, 0)).toBe(2_000);
    expect(others.length).toBeLessThan(25);
    await link.close();
  });

  it("syncs an unsynced write only together with a write that requires a sync", async () => {
    const link = await WorkerLink.open(
      workerThat(
        "(message) => parentPort.postMessage({ kind: 'outcomes', outcomes: message.requests.map(() => ({ ok: true, value: message.isSynced })) })",
      ),
      log,
    );
    expect(await link.writeUnsynced("handBackDeliveries", [])).toBe(false);
    const first = link.read("ping");
    expect(
      await Promise.all([first, link.writeUnsynced("handBackDeliveries", []), link.write("noteLive", [])]),
    ).toEqual([false, true, true]);
    await link.close();
  });

  it("runs one scan at a time, and other requests between two of them (E-10)", async () => {
    const order: string[] = [];
    const link = await WorkerLink.open(
      workerThat(
        "(message) => parentPort.postMessage({ kind: 'outcomes', outcomes: message.requests.map(() => ({ ok: true, value: message.requests.length })) })",
      ),
      log,
    );
    const noted = async (name: string, asked: Promise<number>): Promise<void> => {
      order.push(`${name} in a batch of ${await asked}`);
    };
    const scans = [1, 2, 3, 4].map((number) => noted(`scan ${number}`, link.scan("listKeys", number)));
    const others = [noted("write", link.write("touchKey", "key_1", 1)), noted("read", link.read("ping"))];
    const last = others[0]?.then(() => noted("later write", link.write("touchKey", "key_1", 2)));
    await Promise.all([...scans, ...others, last]);
    expect(order).toEqual([
      "scan 1 in a batch of 1",
      "write in a batch of 2",
      "read in a batch of 2",
      "scan 2 in a batch of 1",
      "later write in a batch of 1",
      "scan 3 in a batch of 1",
      "scan 4 in a batch of 1",
    ]);
    await link.close();
  });

  it("rejects waiting scans when the thread dies", async () => {
    const link = await WorkerLink.open(workerThat("() => process.exit(0)"), log);
    const asked = await Promise.allSettled([link.scan("listKeys", 1), link.scan("listKeys", 2)]);
    for (const outcome of asked) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "storage_unavailable" } });
    }
  });

  it("returns the reason why the file could not be opened", async () => {
    const worker = workerThat("() => {}", '{ kind: "refused", message: "in use", fix: "stop it" }');
    setImmediate(() => worker.postMessage({ kind: "close" }));
    await expect(WorkerLink.open(worker, log)).rejects.toMatchObject({
      name: "StateOpenError",
      message: "in use",
      fix: "stop it",
    });
  });

  it("rejects if the thread ends before it has opened the file", async () => {
    const worker = new Worker("process.exit(3)", { eval: true });
    workers.push(worker);
    await expect(WorkerLink.open(worker, log)).rejects.toThrow("ended before it opened the file");
  });
});
