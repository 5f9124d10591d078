import { execFileSync } from "node:child_process";
import { copyFile, mkdir, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { uis } from "../../support/cli-run.js";
import { eventually } from "../../support/eventually.js";
import { metricLines } from "../../support/metrics-text.js";
import { needsInstalled } from "../../support/missing-program.js";
import { MovableClock } from "../../support/movable-clock.js";
import { type LastingDisk, lastingDisk, needsOwnMounts } from "../../support/own-disk.js";
import { uisProgram } from "../../support/program.js";
import { seededPick } from "../../support/random-numbers.js";
import { ReadOnlyDisk } from "../../support/read-only-disk.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { rounds } from "../../support/tier.js";

/**
 * Number of repetitions of each fault of the storage. After a fault all answered requests are counted, or the service has
 * reported how many are not.
 */
const roundCount = rounds(20);
/** Timeout of a test. A round has two starts and a stop that waits 10 s for the disk. */
const testMs = roundCount * 30_000;
const patienceMs = 30_000;

const admin = "admin-token-of-this-test";
const key = "an-own-key-of-this-test";
const env = {
  UIS_ADMIN_TOKEN: admin,
  UIS_BOOTSTRAP_API_KEY: key,
  UIS_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
  LOG_LEVEL: "error",
};
const config = { models: [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }] };
const atOnce = 25;

let served: ServiceFolder;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(() => served.remove());

const seed = Math.floor(Math.random() * 2 ** 31);
const pick = seededPick(seed);

/** Sends chats, all of which must succeed. Returns their number. */
async function chats(service: ServiceProcess, count: number): Promise<number> {
  const client = new ServiceClient(service.line.api, key);
  for (let sent = 0; sent < count; sent += atOnce) {
    const answers = await Promise.all(Array.from({ length: Math.min(atOnce, count - sent) }, () => client.chat("m")));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  }
  return count;
}

async function metric(service: ServiceProcess, name: string): Promise<number> {
  return metricLines(await (await fetch(`${service.ops}/metrics`)).text(), name)[""] ?? Number.NaN;
}

const dayS = 86_400;

/** Number of requests that are counted in the hours around the current time. */
async function counted(service: ServiceProcess): Promise<number> {
  const nowS = Math.floor(Date.now() / 1_000);
  const range = `start_time=${nowS - dayS}&end_time=${nowS + dayS}`;
  const client = new ServiceClient(service.line.api, key);
  const { json } = await client.get(`/v1/usage?bucket_width=1d&limit=4&${range}`);
  const buckets = json["data"] as { results: { num_model_requests: number }[] }[];
  return buckets.reduce((sum, { results }) => sum + (results[0]?.num_model_requests ?? 0), 0);
}

/** Number of counted requests, after the spool is empty. */
async function countedInAll(service: ServiceProcess): Promise<number> {
  await eventually(async () => (await metric(service, "uis_usage_spool_size")) === 0, "the spool is empty", patienceMs);
  return await counted(service);
}

/** Runs services on a private disk, which is kept when they end. */
async function onDisk(
  use: (disk: LastingDisk, start: (more?: object) => Promise<ServiceProcess>) => Promise<void>,
): Promise<void> {
  await mkdir(served.dataDir);
  const disk = await lastingDisk(served.dataDir, 24);
  const args = ["--json", "--config", join(served.folder, "uis.yaml"), "--data-dir", served.dataDir];
  const start = (more: object = {}) =>
    served.start(config, { env: { ...env, ...more }, args, under: (command) => disk.under(command) });
  try {
    await use(disk, start);
  } finally {
    await served.stopAll();
    await disk.remove();
  }
}

describe(`a full disk, ${roundCount} times`, () => {
  it("freed before a kill -9: the service starts again, and lost at most the settlements that were only in memory (E-20, E-21)", {
    timeout: testMs,
  }, async (context) => {
    needsOwnMounts(context);
    let lost = 0;
    await onDisk(async (disk, start) => {
      let service = await start();
      let answered = 0;
      for (let round = 0; round < roundCount; round++) {
        answered += await chats(service, 25);
        const emptyDisk = await disk.fill();
        answered += await chats(service, 50);
        await emptyDisk();
        await delay(pick(600));
        const memoryOnly = await metric(service, "uis_usage_memory_only");
        await service.kill();
        service = await start();
        const found = await countedInAll(service);
        expect(answered - found).toBeLessThanOrEqual(memoryOnly);
        expect(found).toBeLessThanOrEqual(answered);
        lost += answered - found;
        answered = found;
      }
    });
    await context.annotate(`${lost} of ${roundCount * 75} answered requests were only in memory; seed ${seed}`);
  });

  it("with a SIGTERM: usage is in UIS_SPILL_DIR, or the exit code is 1 and the reported number of lost requests is exact (E-21)", {
    timeout: testMs,
  }, async (context) => {
    needsOwnMounts(context);
    const spill = { UIS_SPILL_DIR: join(served.folder, "spill") };
    await onDisk(async (disk, start) => {
      let answered = 0;
      for (let round = 0; round < roundCount; round++) {
        const hasSpill = round >= roundCount / 2;
        const service = await start(hasSpill ? spill : {});
        expect(await countedInAll(service)).toBe(answered);
        answered += await chats(service, 25);
        const emptyDisk = await disk.fill();
        answered += await chats(service, 50);
        const code = await service.stop();
        const [, said = "0"] = /the usage of (\d+) finished requests is lost/.exec(service.stderr()) ?? [];
        // Writes may still succeed within the last allocated blocks of files, so all settlements may be on the disk.
        expect(code).toBe(Number(said) > 0 ? 1 : 0);
        if (hasSpill) expect(Number(said)).toBe(0);
        answered -= Number(said);
        await emptyDisk();
      }
      expect(await countedInAll(await start(spill))).toBe(answered);
    });
  });
});

describe("a disk that is full at the start", () => {
  it("makes it fail with one line of path, cause and fix; a failed first start leaves no files (E-29)", async (context) => {
    needsOwnMounts(context);
    await onDisk(async (disk, start) => {
      const refused = async (): Promise<string> => {
        const failed = await start().then(
          () => "the service has started",
          (error: Error) => error.message,
        );
        return failed.replace("serve ended with ", "");
      };
      const line =
        /^2: uis: \S+ cannot be (used|written|opened): the disk is full; free some space on it.*--data-dir.*\n$/;
      const emptyNew = await disk.fill();
      expect(await refused()).toMatch(line);
      await emptyNew();
      const service = await start();
      await service.stop();
      const empty = await disk.fill();
      expect(await refused()).toMatch(line);
      await empty();
      await start();
    });
  });
});

describe(`a file system that turns read-only under traffic, ${roundCount} times`, () => {
  it("the service continues, reports how much usage is only in memory, and counts all of it when the disk is writable again (E-21)", {
    timeout: testMs,
  }, async () => {
    needsInstalled("gcc");
    const disk = new ReadOnlyDisk(served.dataDir);
    try {
      let answered = 0;
      let service = await served.start(config, { env: { ...env, ...disk.env } });
      for (let round = 0; round < roundCount; round++) {
        answered += await chats(service, 25);
        disk.set(true);
        answered += await chats(service, 50);
        await eventually(async () => (await metric(service, "uis_store_up")) === 0, "the fault is reported");
        expect(await metric(service, "uis_usage_memory_only")).toBeGreaterThan(0);
        await delay(pick(300));
        disk.set(false);
        expect(await countedInAll(service)).toBe(answered);
        if (round % 4 !== 3) continue;
        // All settlements are on the disk now, so a kill loses none.
        await service.kill();
        service = await served.start(config, { env: { ...env, ...disk.env } });
        expect(await countedInAll(service)).toBe(answered);
      }
    } finally {
      await served.stopAll();
      disk.remove();
    }
  });
});

describe(`a clock that jumps once and is right again, ${roundCount} times`, () => {
  it.each([
    ["40 days forward", 40 * dayS],
    ["2 hours forward", 7_200],
    ["2 hours back", -7_200],
  ])(
    "%s: keys and usage follow the clock immediately, and every answer is counted (E-22)",
    { timeout: testMs },
    async (_, jumpS) => {
      needsInstalled("gcc");
      const clock = new MovableClock();
      try {
        const service = await served.start(config, { env: { ...env, ...clock.env } });
        const administrator = new ServiceClient(service.line.api, admin);
        const created = await administrator.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", {
          name: "expires in an hour",
          scope: "SCOPE_READ_WRITE",
          expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
        });
        const expiring = new ServiceClient(service.line.api, String(created.json["secret"]));
        let answered = 0;
        for (let round = 0; round < roundCount; round++) {
          answered += await chats(service, 5);
          clock.set(jumpS);
          const during = (await expiring.chat("m")).status;
          expect(during).toBe(jumpS > 3_600 ? 401 : 200);
          answered += during === 200 ? 1 : 0;
          answered += await chats(service, 5);
          clock.set(0);
          expect((await expiring.chat("m")).status).toBe(200);
          answered += 1 + (await chats(service, 5));
        }
        if (jumpS < dayS) await eventually(async () => (await counted(service)) === answered, "all are counted");
        const { warnings } = (
          (await (await fetch(`${service.ops}/ready`)).json()) as { state: { warnings: readonly string[] } }
        ).state;
        expect(warnings.join()).toMatch(/clock was set (back|forward)/);
        expect(await metric(service, "uis_clock_jumps_total")).toBe(2 * roundCount);
        expect(await service.stop()).toBe(0);
        expect((await uis(["state", "repair-time", "--data-dir", served.dataDir])).code).toBe(0);
        const again = await served.start(config, { env: { ...env, ...clock.env } });
        expect(await counted(again)).toBe(answered);
      } finally {
        await served.stopAll();
        clock.remove();
      }
    },
  );
});

/** Restores a backup in a separate process, whose end closes the database. */
function restore(file: string): void {
  execFileSync(process.execPath, [...uisProgram, "restore", file, "--data-dir", served.dataDir], { stdio: "pipe" });
}

describe(`data files of a running service, ${roundCount} times`, () => {
  const isReady = async (service: ServiceProcess): Promise<boolean> =>
    (await fetch(`${service.http}/ready`)).status === 200;

  it("deleted: the service is not ready, a backup has the requests answered before, and the spool has the others (E-23, E-24)", {
    timeout: testMs,
  }, async () => {
    let answered = 0;
    for (let round = 0; round < roundCount; round++) {
      const service = await served.start(config, { env });
      answered += await chats(service, 25);
      for (const suffix of ["", "-wal"]) await rm(databaseFile(served.dataDir) + suffix, { force: true });
      await eventually(async () => !(await isReady(service)), "it is not ready");
      answered += await chats(service, 25);
      const path = join(served.folder, `saved-${round}.db`);
      const administrator = new ServiceClient(service.line.api, admin);
      expect(await administrator.rpc("unified.admin.v1.SystemService/CreateBackup", { path })).toMatchObject({
        status: 200,
      });
      expect(await service.stop()).toBe(0);
      expect(await served.refused(config, { env })).toEqual({
        code: 2,
        line: expect.stringMatching(/uis\.db is missing, but there is .*spool/),
      });
      restore(path);
      const again = await served.start(config, { env });
      expect(await countedInAll(again)).toBe(answered);
      await again.kill();
    }
  });

  it("deleted with their folder: later usage is in UIS_SPILL_DIR, or the exit code is 1 and the loss is reported (E-21, E-23)", {
    timeout: testMs,
  }, async () => {
    for (let round = 0; round < roundCount; round++) {
      const spill = { UIS_SPILL_DIR: join(served.folder, `spill-${round}`) };
      const hasSpill = round % 2 === 0;
      const service = await served.start(config, { env: { ...env, ...(hasSpill ? spill : {}) } });
      const before = await chats(service, 25);
      await rm(served.dataDir, { recursive: true });
      await eventually(async () => !(await isReady(service)), "it is not ready");
      const after = await chats(service, 25);
      const path = join(served.folder, `saved-${round}.db`);
      const administrator = new ServiceClient(service.line.api, admin);
      expect(await administrator.rpc("unified.admin.v1.SystemService/CreateBackup", { path })).toMatchObject({
        status: 200,
      });
      const code = await service.stop();
      const [, said = "0"] = /the usage of (\d+) finished requests is lost/.exec(service.stderr()) ?? [];
      expect([code, Number(said)]).toEqual(hasSpill ? [0, 0] : [1, after]);
      restore(path);
      const again = await served.start(config, { env: { ...env, ...spill } });
      // The backup contains rows of running requests. The next process settles those that have no settlement.
      const found = await countedInAll(again);
      expect(found).toBeGreaterThanOrEqual(before + after - Number(said));
      expect(found).toBeLessThanOrEqual(before + after);
      await again.kill();
      await rm(served.dataDir, { recursive: true });
    }
  });

  it("moved and moved back: the service is not ready in between, and every answer is counted (E-23)", {
    timeout: testMs,
  }, async () => {
    const away = `${served.dataDir}-away`;
    let service = await served.start(config, { env });
    let answered = 0;
    for (let round = 0; round < roundCount; round++) {
      answered += await chats(service, 25);
      await rename(served.dataDir, away);
      await eventually(async () => !(await isReady(service)), "it is not ready");
      answered += await chats(service, 25);
      await rename(away, served.dataDir);
      await eventually(() => isReady(service), "it is ready again");
      expect(await countedInAll(service)).toBe(answered);
      if (round % 4 !== 3) continue;
      await service.kill();
      service = await served.start(config, { env });
      expect(await countedInAll(service)).toBe(answered);
    }
  });
});

describe(`data files of a stopped service, ${roundCount} times`, () => {
  const file = () => databaseFile(served.dataDir);
  const cut = async (): Promise<void> => {
    const bytes = (await readFile(file())).length;
    await truncate(file(), 4_096 * (1 + pick(bytes / 4_096 - 1)));
  };
  const zero = async (): Promise<void> => writeFile(file(), Buffer.alloc((await readFile(file())).length));
  const newer = async (): Promise<void> => {
    const db = openSqlite(file());
    db.exec("INSERT INTO migrations (number, applied_at_ms) VALUES (999, 0)");
    db.close();
  };

  it.each([
    ["emptied", () => truncate(file()), /uis\.db is empty.*uis restore FILE/],
    ["deleted", () => rm(file()), /uis\.db is missing.*uis restore FILE/],
    ["truncated", cut, /uis\.db is not a valid database.*uis restore FILE/],
    ["zeroed", zero, /uis\.db is not a valid database.*uis restore FILE/],
    ["of a newer version", newer, /written by a newer version.*start the version that wrote it/],
  ])(
    "%s: the start fails with one line and exit code 2, and changes nothing (E-24, E-29)",
    {
      timeout: testMs,
    },
    async (_, damage, refusal) => {
      const saved = join(served.folder, "whole.db");
      let answered = 0;
      for (let round = 0; round < roundCount; round++) {
        const service = await served.start(config, { env });
        answered += await chats(service, 25);
        expect(await countedInAll(service)).toBe(answered);
        expect(await service.stop()).toBe(0);
        await copyFile(file(), saved);
        await damage();
        const before = await readFile(file()).catch(() => null);
        const { exited, stderr } = served.spawn({ env });
        expect(await exited).toBe(2);
        expect(stderr()).toMatch(refusal);
        expect(stderr().trimEnd().split("\n")).toHaveLength(1);
        expect(await readFile(file()).catch(() => null)).toEqual(before);
        if (refusal.source.includes("newer")) await copyFile(saved, file());
        else restore(saved);
      }
      expect(await countedInAll(await served.start(config, { env }))).toBe(answered);
    },
  );
});
