import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import {
  fillDisk,
  type LastingDisk,
  lastingDisk,
  needsOwnMounts,
  onOwnDisk,
  withReadOnly,
} from "../../support/own-disk.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";

type Serving = ReturnType<ServiceFolder["start"]>;

let served: ServiceFolder;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(() => served.remove());

const admin = "admin-token-of-this-test";
const env = { UIS_ADMIN_TOKEN: admin, LOG_LEVEL: "error" };
const models = [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }];
const spoolMax = 1_000;
const atOnce = 50;

/** Sends `count` chats, at most `atOnce` of them concurrently. */
async function chats(client: ServiceClient, count: number): Promise<ClientAnswer[]> {
  const answers: ClientAnswer[] = [];
  while (answers.length < count) {
    const wave = Array.from({ length: Math.min(atOnce, count - answers.length) }, () => client.chat("m"));
    answers.push(...(await Promise.all(wave)));
  }
  return answers;
}

async function requestsCounted(client: ServiceClient): Promise<number> {
  const { json } = await client.get("/v1/usage?bucket_width=1d&limit=1");
  const [bucket] = json["data"] as { results: { num_model_requests: number }[] }[];
  return bucket?.results[0]?.num_model_requests ?? 0;
}

describe("a service whose disk is full", () => {
  it("serves until the spool is full, then answers 503 and still reads, and recovers by itself without loss (REL-18, USE-11, USE-12)", async (context) => {
    needsOwnMounts(context);
    const config = { models, state: { spool_max: spoolMax } };
    const { dataDir } = served;
    await mkdir(dataDir);
    const under = (command: readonly string[]) => onOwnDisk(dataDir, 3, command);
    const { child, line } = await served.start(config, { env, under });
    const client = new ServiceClient(line.api, line.api_key?.secret ?? "");
    const administrator = new ServiceClient(line.api, admin);
    const createKey = () =>
      administrator.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", { name: "k", scope: "SCOPE_READ" });
    expect((await client.chat("m")).status).toBe(200);
    const emptyDisk = await fillDisk(child.pid ?? 0, dataDir);

    // Writes may still succeed within the last allocated blocks of files.
    await eventually(async () => (await createKey()).status !== 200, "the disk is full");
    expect(await createKey()).toMatchObject({
      status: 503,
      code: "unavailable",
      text: expect.stringContaining("full"),
    });
    expect((await client.get("/v1/models")).status).toBe(200);
    expect((await administrator.rpc("unified.admin.v1.ApiKeyService/ListApiKeys")).status).toBe(200);
    const before = await chats(client, spoolMax / 2);
    expect(before.filter(({ status }) => status !== 200)).toEqual([]);

    const until = await chats(client, spoolMax);
    const refused = until.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThanOrEqual(spoolMax / 2 - atOnce);
    expect(new Set(refused.map(({ status, code }) => `${status} ${code}`))).toEqual(
      new Set(["503 storage_unavailable"]),
    );
    expect((await client.get("/v1/models")).status).toBe(200);

    await emptyDisk();
    await eventually(async () => (await client.chat("m")).status === 200, "the spool accepts settlements again");
    expect((await createKey()).status).toBe(200);
    const answered = 1 + before.length + until.length - refused.length + 1;
    await eventually(async () => (await requestsCounted(client)) >= answered, "the spool is empty");
    expect(await requestsCounted(client)).toBe(answered);
  });
});

describe("a read-only data folder", () => {
  it("makes the start fail with exit code 2, the cause and the fix (REL-18)", async (context) => {
    needsOwnMounts(context);
    const first = await served.start({ models }, { env });
    first.child.kill("SIGTERM");
    expect(await first.exited).toBe(0);
    const folder = await served.refused({ models }, { env, under: (c) => withReadOnly(served.dataDir, c) });
    expect(folder).toEqual({ code: 2, line: expect.stringMatching(/data folder .*read-only.*--data-dir/i) });
    const file = await served.refused({ models }, { env, under: (c) => withReadOnly(`${served.dataDir}/uis.db`, c) });
    expect(file).toEqual({
      code: 2,
      line: expect.stringMatching(/uis\.db cannot be used: the file system is read-only; mount it writable/),
    });
  });
});

describe("a stop while the disk is full", () => {
  const answered = 200;

  /** Runs a service on a private disk, which is kept when the service ends. */
  async function onDisk(
    use: (disk: LastingDisk, serve: (settings: object) => Serving) => Promise<void>,
  ): Promise<void> {
    await mkdir(served.dataDir);
    const disk = await lastingDisk(served.dataDir, 3);
    const args = ["--json", "--config", join(served.folder, "uis.yaml"), "--data-dir", served.dataDir];
    const serve = (settings: object): Serving =>
      served.start({ models }, { env: { ...env, ...settings }, args, under: (command) => disk.under(command) });
    try {
      await use(disk, serve);
    } finally {
      await served.stopAll();
      await disk.remove();
    }
  }

  it("reports usage in memory at /ready, in a metric and in the log, and writes it to UIS_SPILL_DIR (E-21)", async (context) => {
    needsOwnMounts(context);
    await onDisk(async (disk, serve) => {
      const spill = { UIS_SPILL_DIR: join(served.folder, "spill") };
      const { child, line, stderr, exited } = await serve(spill);
      const secret = line.api_key?.secret ?? "";
      const client = new ServiceClient(line.api, secret);
      const emptyDisk = await disk.fill();
      const answers = await chats(client, answered);
      expect(answers.every(({ status }) => status === 200)).toBe(true);

      const page = async (url: string): Promise<string> => (await fetch(url)).text();
      await eventually(() => stderr().includes("in memory only"), "the warning is logged");
      expect(await page(`${line.ops}/ready`)).toMatch(/the store cannot be written: .*full.*in memory only/);
      expect(await page(new URL("/ready", line.api).href)).toContain("storage_unavailable");
      const metrics = await page(`${line.ops}/metrics`);
      expect(Number(/^uis_usage_memory_only (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(answered / 2);
      expect(metrics).toMatch(/^uis_store_up 0$/m);

      child.kill("SIGTERM");
      expect(await exited).toBe(0);
      await emptyDisk();
      const again = await serve(spill);
      const reader = new ServiceClient(again.line.api, secret);
      await eventually(async () => (await requestsCounted(reader)) >= answered, "all usage is counted");
      expect(await requestsCounted(reader)).toBe(answered);
    });
  });

  it("exits with 1 and the number of lost requests without a spill folder (E-21)", async (context) => {
    needsOwnMounts(context);
    await onDisk(async (disk, serve) => {
      const { child, line, stderr, exited } = await serve({});
      const client = new ServiceClient(line.api, line.api_key?.secret ?? "");
      await disk.fill();
      const memoryOnly = async (): Promise<number> => {
        const metrics = await (await fetch(`${line.ops}/metrics`)).text();
        return Number(/^uis_usage_memory_only (\d+)/m.exec(metrics)?.[1]);
      };
      // Writes may still succeed within the last allocated blocks of files.
      await eventually(async () => {
        await chats(client, atOnce);
        return (await memoryOnly()) >= answered;
      }, "enough usage is in memory only");
      child.kill("SIGTERM");
      expect(await exited).toBe(1);
      const [, lost] = /the usage of (\d+) finished requests is lost.*UIS_SPILL_DIR/.exec(stderr()) ?? [];
      expect(Number(lost)).toBeGreaterThanOrEqual(answered);
    });
  });
});
