import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { keyRecord, listKeys } from "../../suites/api-key-records.js";
import { silentLog } from "../../support/silent-log.js";
import { rounds } from "../../support/tier.js";
import { StateChild } from "./child-process.js";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-crash-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

/**
 * Starts a child process that inserts keys numbered from `from`, kills it after some answers and returns the acknowledged
 * numbers.
 */
async function floodAndKill(from: number, answersMin: number): Promise<number[]> {
  const child = new StateChild(dataDir);
  try {
    expect(await child.hear(() => true)).toEqual({ kind: "opened" });
    child.tell({ kind: "flood", from });
    await child.hear(() => child.said.length > answersMin);
  } finally {
    await child.kill();
  }
  return child.acknowledged;
}

describe("embedded state under kill -9", () => {
  it("keeps every acknowledged key complete, and opens again each time", { timeout: 240_000 }, async () => {
    const acknowledged: number[] = [];
    const count = rounds(50);
    for (let round = 0; round < count; round++) {
      acknowledged.push(...(await floodAndKill(round * 1_000_000 + 1, 1 + Math.floor(Math.random() * 500))));
    }
    expect(acknowledged.length).toBeGreaterThan(count);

    const state = await openEmbeddedState({ dataDir, log: silentLog });
    const found: number[] = [];
    for (const record of await listKeys(state.keys, {}, 1_000)) {
      const number = Number(record.id.slice("key_".length));
      // Keys whose insert was not acknowledged are either complete or absent.
      expect(record).toEqual(keyRecord(number));
      found.push(number);
    }
    await state.close();
    const there = new Set(found);
    expect(acknowledged.filter((number) => !there.has(number))).toEqual([]);
    expect(there.size).toBe(found.length);
  });

  it("writes all pending changes when it is closed", async () => {
    const state = await openEmbeddedState({ dataDir, log: silentLog });
    const numbers = Array.from({ length: 3_000 }, (_, position) => position);
    const inserts = Promise.all(numbers.map((number) => state.keys.insert(keyRecord(number))));
    await state.close();
    await inserts;
    await expect(state.keys.insert(keyRecord(9_999))).rejects.toMatchObject({ code: "storage_unavailable" });

    const again = await openEmbeddedState({ dataDir, log: silentLog });
    const records = await listKeys(again.keys, {}, 1_000);
    await again.close();
    expect(records).toHaveLength(numbers.length);
  });
});
