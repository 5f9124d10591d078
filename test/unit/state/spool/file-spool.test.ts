import { appendFile, chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Settlement } from "../../../../src/domain/metering/ledger.js";
import { FileSpool } from "../../../../src/state/spool/file-spool.js";
import { silentLog } from "../../../support/core-harness.js";

function settlement(number: number): Settlement {
  return {
    requestId: `req_${number}`,
    account: "a",
    keyId: "key_1",
    model: "m",
    operation: "create_chat_completion",
    why: "completed",
    error: null,
    promptTokens: number,
    completionTokens: 1,
    cachedTokens: 0,
    costNano: 0,
    latencyMs: 1,
    degraded: false,
    event: { id: "evt_1", type: "request.completed", body: '{"text":"ä\\n"}' },
    thresholds: [
      {
        id: "thr_1",
        account: "a",
        apiKeyId: null,
        metric: "cost",
        period: "day",
        limit: 9_007_199_254_740_993n,
        percents: [100],
        action: "notify",
        createdAtMs: 1,
        updatedAtMs: 1,
      },
    ],
    endedAtMs: 1_000 + number,
  };
}

let folder: string;
const opened: FileSpool[] = [];
const open = async (sizeMax = 1_000): Promise<FileSpool> => {
  const spool = await FileSpool.open({ folder: join(folder, "spool"), sizeMax, log: silentLog });
  opened.push(spool);
  return spool;
};
const ids = async (spool: FileSpool, max = 1_000): Promise<string[]> =>
  (await spool.oldest(max)).map((each) => each.settlement.requestId);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-spool-"));
});
afterEach(async () => {
  for (const spool of opened.splice(0)) await spool.close();
  await rm(folder, { recursive: true, force: true });
});

describe("FileSpool", () => {
  it("what was appended is there after a restart, in its order and unchanged (USE-11)", async () => {
    const spool = await open();
    await Promise.all([1, 2, 3].map((number) => spool.append(settlement(number))));
    const again = await open();
    expect(await ids(again)).toEqual(["req_1", "req_2", "req_3"]);
    expect((await again.oldest(1))[0]?.settlement).toEqual(settlement(1));
    expect(again.oldestAtMs).toBe(1_001);
  });

  it("what is released is gone, what came after it stays (USE-11)", async () => {
    const spool = await open();
    for (const number of [1, 2, 3]) await spool.append(settlement(number));
    const [, second] = await spool.oldest(2);
    await spool.release(second?.end ?? "");
    expect(await ids(spool)).toEqual(["req_3"]);
    expect(spool.size).toBe(1);
  });

  it("leaves no file when all is released", async () => {
    const spool = await open();
    await spool.append(settlement(1));
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(await readdir(join(folder, "spool"))).toEqual([]);
    await spool.append(settlement(2));
    expect(await ids(await open())).toEqual(["req_2"]);
  });

  it("a line that a crash cut off is left out, and the ones before it are kept (USE-11)", async () => {
    const spool = await open();
    for (const number of [1, 2]) await spool.append(settlement(number));
    const [name] = await readdir(join(folder, "spool"));
    const file = join(folder, "spool", String(name));
    const whole = await readFile(file, "utf8");
    for (const cut of [1, 40, 200]) {
      await writeFile(file, whole.slice(0, -cut));
      expect(await ids(await open())).toEqual(["req_1"]);
    }
  });

  it.each([
    ["a block of zeros", `${"\0".repeat(4096)}\n`],
    ["a settlement with a damaged threshold", '{"requestId":"req_7","thresholds":[{"limit":"x"}]}\n'],
    ["a line whose bytes were changed", `12 00000000 {"thr":[1,2]}\n`],
  ])("skips %s and keeps the lines around it (E-20)", async (_, damage) => {
    const spool = await open();
    await spool.append(settlement(1));
    const [name] = await readdir(join(folder, "spool"));
    await appendFile(join(folder, "spool", String(name)), damage);
    await spool.append(settlement(2));
    expect(await ids(await open())).toEqual(["req_1", "req_2"]);
  });

  it("refuses what does not fit, as storage_unavailable (USE-12)", async () => {
    const spool = await open(2);
    await spool.append(settlement(1));
    await spool.append(settlement(2));
    await expect(spool.append(settlement(3))).rejects.toMatchObject({ code: "storage_unavailable" });
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    await spool.append(settlement(3));
    expect(await ids(spool)).toEqual(["req_2", "req_3"]);
  });

  it("keeps what it can in memory when the disk cannot be written (USE-11)", async () => {
    const spool = await open();
    await rm(join(folder, "spool"), { recursive: true });
    await spool.append(settlement(1));
    expect(await ids(spool)).toEqual(["req_1"]);
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(spool.size).toBe(0);
  });

  it("tells that it is full when the disk cannot be written and memory has its 10,000 (USE-12)", async () => {
    const spool = await open(1_000_000);
    expect(spool.sizeMax).toBe(1_000_000);
    await rm(join(folder, "spool"), { recursive: true });
    await Promise.all(Array.from({ length: 10_000 }, (_, number) => spool.append(settlement(number))));
    expect([spool.size, spool.sizeMax]).toEqual([10_000, 10_000]);
    await expect(spool.append(settlement(10_000))).rejects.toThrow("in memory");
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(spool.size).toBeLessThan(spool.sizeMax);
    await spool.append(settlement(10_001));
  });

  it("its files are the owner's alone (SEC-31)", async () => {
    const spool = await open();
    await spool.append(settlement(1));
    await chmod(folder, 0o700);
    const { stat } = await import("node:fs/promises");
    const [name] = await readdir(join(folder, "spool"));
    expect((await stat(join(folder, "spool", String(name)))).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, "spool"))).mode & 0o777).toBe(0o700);
  });
});
