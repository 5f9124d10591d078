import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Settlement } from "../../../../src/domain/metering/ledger.js";
import { FileSpool } from "../../../../src/state/spool/file-spool.js";
import { settlement as anySettlement, threshold } from "../../../support/records.js";
import { silentLog } from "../../../support/silent-log.js";

function settlement(number: number): Settlement {
  const event = { id: "evt_1", type: "request.completed", body: '{"text":"ä\\n"}' } as const;
  const crossed = threshold("thr_1", { metric: "cost", period: "day", limit: 9_007_199_254_740_993n });
  const tokens = { promptTokens: number, completionTokens: 1 };
  return anySettlement(`req_${number}`, { ...tokens, event, thresholds: [crossed], endedAtMs: 1_000 + number });
}

let folder: string;
const opened: FileSpool[] = [];
const open = async (sizeMax = 1_000, spillDir: string | null = null): Promise<FileSpool> => {
  const spool = await FileSpool.open({ folder: join(folder, "spool"), spillDir, sizeMax, log: silentLog });
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
  it("has all appended settlements after a restart, unchanged and in order (USE-11)", async () => {
    const spool = await open();
    await Promise.all([1, 2, 3].map((number) => spool.append(settlement(number))));
    const again = await open();
    expect(await ids(again)).toEqual(["req_1", "req_2", "req_3"]);
    expect((await again.oldest(1))[0]?.settlement).toEqual(settlement(1));
    expect(again.oldestAtMs).toBe(1_001);
  });

  it("removes released settlements and keeps later ones (USE-11)", async () => {
    const spool = await open();
    for (const number of [1, 2, 3]) await spool.append(settlement(number));
    const [, second] = await spool.oldest(2);
    await spool.release(second?.end ?? "");
    expect(await ids(spool)).toEqual(["req_3"]);
    expect(spool.size).toBe(1);
  });

  it("leaves no file when all settlements are released", async () => {
    const spool = await open();
    await spool.append(settlement(1));
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(await readdir(join(folder, "spool"))).toEqual([]);
    await spool.append(settlement(2));
    expect(await ids(await open())).toEqual(["req_2"]);
  });

  it("skips a line that is incomplete after a crash and keeps the lines before it (USE-11)", async () => {
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

  it("accepts, when it is full, 10,000 more settlements of requests that were admitted before, then rejects settlements (USE-12, E-21)", async () => {
    const spool = await open(2);
    for (const number of [1, 2]) await spool.append(settlement(number));
    expect(spool.size).toBe(spool.sizeMax);
    await Promise.all(Array.from({ length: 10_000 }, (_, number) => spool.append(settlement(number + 3))));
    await expect(spool.append(settlement(0))).rejects.toMatchObject({ code: "storage_unavailable" });
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    await spool.append(settlement(20_000));
    expect(await ids(spool, 2)).toEqual(["req_2", "req_3"]);
  });

  it("keeps settlements in memory while the disk cannot be written (USE-11)", async () => {
    const spool = await open();
    await rm(join(folder, "spool"), { recursive: true });
    await spool.append(settlement(1));
    expect(await ids(spool)).toEqual(["req_1"]);
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(spool.size).toBe(0);
  });

  it("is full while the disk cannot be written and 10,000 settlements are only in memory (USE-12)", async () => {
    const spool = await open(1_000_000);
    expect(spool.sizeMax).toBe(1_000_000);
    await rm(join(folder, "spool"), { recursive: true });
    await Promise.all(Array.from({ length: 10_000 }, (_, number) => spool.append(settlement(number))));
    expect([spool.size, spool.sizeMax]).toEqual([10_000, 10_000]);
    expect(spool.memoryOnly).toBe(10_000);
    await spool.release((await spool.oldest(1))[0]?.end ?? "");
    expect(spool.size).toBeLessThan(spool.sizeMax);
  });

  it("writes the settlements in memory once the disk can be written again (E-21)", async () => {
    const spool = await open();
    await rm(join(folder, "spool"), { recursive: true });
    for (const number of [1, 2]) await spool.append(settlement(number));
    expect([spool.memoryOnly, spool.fault]).toEqual([2, expect.stringContaining("ENOENT")]);
    await mkdir(join(folder, "spool"));
    await spool.persist();
    expect([spool.memoryOnly, spool.fault]).toEqual([0, null]);
    expect(await ids(await open())).toEqual(["req_1", "req_2"]);
  });

  it("keeps settlements in memory whose file was deleted after it was written (E-23)", async () => {
    const spillDir = join(folder, "spill");
    const spool = await open(1_000, spillDir);
    for (const number of [1, 2]) await spool.append(settlement(number));
    await rm(join(folder, "spool"), { recursive: true });
    await spool.append(settlement(3));
    expect([spool.memoryOnly, spool.fault]).toEqual([3, expect.stringContaining("deleted")]);
    await spool.append(settlement(4));
    expect(spool.memoryOnly).toBe(4);
    expect(await spool.close()).toBe(0);
    expect(await ids(await open(1_000, spillDir))).toEqual(["req_1", "req_2", "req_3", "req_4"]);
  });

  it("counts settlements as lost if their files are deleted before it closes (E-23)", async () => {
    const spool = await open();
    for (const number of [1, 2]) await spool.append(settlement(number));
    await rm(join(folder, "spool"), { recursive: true });
    expect(await spool.close()).toBe(2);
  });

  it("leaves no empty files behind while the disk cannot be written (E-21)", async () => {
    const spool = await open();
    await rm(join(folder, "spool"), { recursive: true });
    for (let number = 0; number < 20; number++) await spool.append(settlement(number));
    await mkdir(join(folder, "spool"));
    await spool.persist();
    expect(await readdir(join(folder, "spool"))).toHaveLength(1);
  });

  it("writes settlements that are only in memory to the spill folder when it closes, and reads them when it opens (E-21)", async () => {
    const spillDir = join(folder, "spill");
    const spool = await open(1_000, spillDir);
    await rm(join(folder, "spool"), { recursive: true });
    for (const number of [1, 2]) await spool.append(settlement(number));
    expect(await spool.close()).toBe(0);
    const again = await open(1_000, spillDir);
    expect(await ids(again)).toEqual(["req_1", "req_2"]);
    await again.release((await again.oldest(2))[1]?.end ?? "");
    expect(await ids(await open(1_000, spillDir))).toEqual([]);
  });

  it("rejects a spill folder that cannot be read, with an error that states cause and fix (E-21)", async () => {
    await writeFile(join(folder, "spill"), "no folder");
    await expect(open(1_000, join(folder, "spill"))).rejects.toMatchObject({
      message: expect.stringContaining("spill folder"),
      fix: expect.stringContaining("UIS_SPILL_DIR"),
    });
  });

  it("returns the number of lost settlements if no disk can be written when it closes (E-21)", async () => {
    for (const spillDir of [null, join(folder, "spill")]) {
      const spool = await open(1_000, spillDir);
      if (spillDir !== null) await writeFile(spillDir, "no folder");
      await rm(join(folder, "spool"), { recursive: true });
      for (const number of [1, 2]) await spool.append(settlement(number));
      expect(await spool.close()).toBe(2);
    }
  });

  it("has files that only the owner can read (SEC-31)", async () => {
    const spool = await open();
    await spool.append(settlement(1));
    await chmod(folder, 0o700);
    const { stat } = await import("node:fs/promises");
    const [name] = await readdir(join(folder, "spool"));
    expect((await stat(join(folder, "spool", String(name)))).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, "spool"))).mode & 0o777).toBe(0o700);
  });
});
