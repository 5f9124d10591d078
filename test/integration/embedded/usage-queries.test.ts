import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Ledger } from "../../../src/domain/metering/ledger.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { settlement } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-usage-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

const dayMs = 86_400_000;
const days = 80;
const keys = 100;

/** Usage of one model by many keys over many days. */
async function fill(ledger: Ledger): Promise<void> {
  for (let day = 0; day < days; day++) {
    const one = (key: number) => settlement(`req_${day}_${key}`, { keyId: `key_${key}`, endedAtMs: day * dayMs });
    await Promise.all(Array.from({ length: keys }, (_, key) => ledger.settle(one(key))));
  }
}

it("usage queries over a large account are read in slices, and settlements run between them (E-10)", async () => {
  const state = await openEmbeddedState({ dataDir, log: silentLog });
  try {
    await fill(state.ledger);
    const order: string[] = [];
    const query = {
      account: "a",
      width: "day",
      fromMs: 0,
      toMs: days * dayMs,
      groupBy: ["model"],
      after: null,
    } as const;
    const queries = Array.from({ length: 10 }, async () => {
      const page = await state.usage.groups({ ...query, groupsMax: 5_000 }, new AbortController().signal);
      order.push("query");
      expect(page.groups).toHaveLength(days);
      expect(page.groups[0]).toMatchObject({ model: "m", requests: BigInt(keys) });
    });
    await new Promise((resolve) => setImmediate(resolve));
    for (let count = 0; count < 5; count++) {
      await state.ledger.settle(settlement(`req_${count}`, {}));
      order.push("settlement");
    }
    await Promise.all(queries);
    // Each query needs several slices. Five settlements wait for at most one slice each.
    expect(order.slice(0, 5)).toEqual(Array(5).fill("settlement"));
  } finally {
    await state.close();
  }
});

it("a cancelled query reads no further slice (E-10)", async () => {
  const state = await openEmbeddedState({ dataDir, log: silentLog });
  try {
    const hungUp = AbortSignal.abort(new Error("hung up"));
    const query = {
      account: "a",
      width: "day",
      fromMs: 0,
      toMs: dayMs,
      groupBy: [],
      after: null,
      groupsMax: 10,
    } as const;
    await expect(state.usage.groups(query, hungUp)).rejects.toThrow("hung up");
  } finally {
    await state.close();
  }
});
