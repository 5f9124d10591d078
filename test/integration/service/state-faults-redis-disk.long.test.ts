import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { OutageBench, type Trouble, troubleMs } from "../../support/outage-bench.js";
import { type LastingDisk, lastingDisk, needsOwnMounts } from "../../support/own-disk.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";

/** Size of the disk in MiB. It is large enough for all writes before the test fills it. */
const diskSize = 64;
const policies = ["everysec", "always"] as const;
type Policy = (typeof policies)[number];
const admin = "admin-token-of-this-test";

/** Redis with its append-only file on a private disk. */
interface Store {
  readonly redis: RedisServer;
  readonly disk: LastingDisk;
}

let store: Store | null = null;
let bench: OutageBench | null = null;
let served: ServiceFolder;
beforeEach(async (context) => {
  needsOwnMounts(context);
  served = await ServiceFolder.create();
});
afterEach(async () => {
  await served.remove();
  await bench?.remove();
  await store?.redis.remove();
  await store?.disk.remove();
  [store, bench] = [null, null];
});

async function startStore(aof: Policy): Promise<Store> {
  const folder = await mkdtemp(join(tmpdir(), "uis-redis-"));
  const disk = await lastingDisk(folder, diskSize);
  store = { disk, redis: await startRedis({ aof, folder, under: disk.under }) };
  return store;
}

/** Fills the disk under a Redis that receives writes, and frees the space afterwards. */
function fullDisk({ redis, disk }: Store, aof: Policy): Trouble {
  const lastWrite = async () => /aof_last_write_status:(\w+)/.exec(await redis.cli("INFO", "persistence"))?.[1];
  let empty = async () => {};
  return {
    async begin() {
      empty = await disk.fill();
      if (aof === "always") await redis.ended();
      else await eventually(async () => (await lastWrite()) === "err", "Redis reports the failed write");
    },
    async end() {
      await empty();
      if (aof === "always") await redis.restart();
      else await eventually(async () => (await lastWrite()) === "ok", "Redis writes again");
    },
  };
}

/** Starts a service on this Redis, with an administrator's client. */
async function serve({ redis }: Store): Promise<{ administrator: ServiceClient; client: ServiceClient }> {
  const env = {
    LOG_LEVEL: "error",
    REDIS_URL: redis.url,
    UIS_ADMIN_TOKEN: admin,
    UIS_MASTER_KEY: randomBytes(32).toString("base64"),
  };
  const models = [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }];
  const { line } = await served.start({ models }, { env });
  return {
    administrator: new ServiceClient(line.api, admin),
    client: new ServiceClient(line.api, line.api_key?.secret ?? ""),
  };
}

const createKey = (administrator: ServiceClient, name: string) =>
  administrator.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", { name, scope: "SCOPE_READ" });
const listKeys = (administrator: ServiceClient) =>
  administrator.rpc("unified.admin.v1.ApiKeyService/ListApiKeys", { pageSize: 1_000 });

/** Names of the keys in the store. */
async function storedKeys(administrator: ServiceClient): Promise<readonly string[]> {
  const { status, json } = await listKeys(administrator);
  expect(status).toBe(200);
  return (json["apiKeys"] as { name: string }[]).map(({ name }) => name);
}

describe("a full disk under Redis", () => {
  it.each(policies)(
    "appendfsync %s: requests continue, limits hold, and usage is complete when there is space again (REL-15, REL-18, state RL-16, state RL-17, USE-11)",
    async (aof) => {
      const started = await startStore(aof);
      bench = await OutageBench.start(started.redis.url, [`disk-${aof}`]);
      await bench.survive(`disk-${aof}`, fullDisk(started, aof));
    },
    troubleMs,
  );

  it.each(policies)(
    "appendfsync %s: creating keys fails with 503 and the cause while it is full, and no earlier key is lost (REL-18)",
    async (aof) => {
      const started = await startStore(aof);
      const { administrator, client } = await serve(started);
      expect((await client.get("/v1/models")).status).toBe(200);
      const created: string[] = [];
      const create = async (name: string) => {
        const answer = await createKey(administrator, name);
        if (answer.status === 200) created.push(name);
        return answer;
      };
      for (let number = 1; number <= 20; number += 1) await create(`before ${number}`);
      expect(created).toHaveLength(20);

      const { begin, end } = fullDisk(started, aof);
      const full = begin();
      // Writes may still succeed within the last allocated block of the file.
      await eventually(async () => (await create(`until full ${created.length}`)).status !== 200, "the disk is full");
      await full;
      const why = aof === "always" ? /no connection|connection is lost/ : /cannot write to its disk/;
      expect(await create("when full")).toMatchObject({
        status: 503,
        code: "unavailable",
        text: expect.stringMatching(why),
      });
      expect((await client.get("/v1/models")).status).toBe(200);
      expect((await client.chat("m")).status).toBe(200);

      await end();
      await eventually(async () => (await create("after")).status === 200, "keys can be created again");
      // Redis is restarted, because a restart loses data that is only in memory.
      await started.redis.stop();
      await started.redis.restart();
      await eventually(async () => (await listKeys(administrator)).status === 200, "Redis is read again");
      expect(await storedKeys(administrator)).toEqual(expect.arrayContaining(created));
    },
  );
});
