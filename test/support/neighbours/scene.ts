import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { writeRandomGguf } from "../gguf/random-gguf.js";
import { type DnsServer, startDnsServer } from "../receivers/dns-server.js";
import { ServiceClient } from "../service-client.js";
import { ServiceFolder, type ServiceProcess, type SpawnOptions } from "../service-process.js";
import { silentLog } from "../silent-log.js";

export interface SceneOptions {
  /** Hourly rows of usage of the hostile account; a million are about 200 MB. */
  readonly usageRows: number;
  /** API keys of a third account. */
  readonly keys: number;
  readonly models: number;
  /** Whether the name server has port 53, where the system's resolver finds it, instead of a free one. */
  readonly isSystemNames: boolean;
  readonly spawn?: Partial<SpawnOptions>;
}

/** Addresses and credentials for a hostile neighbour. Plain data, because it runs in a separate process. */
export interface Target {
  /** `http://host:port` */
  readonly http: string;
  /** `host:port` */
  readonly grpc: string;
  readonly ops: string;
  /** Key of the hostile account, with no limit that it could reach. */
  readonly key: string;
  readonly adminToken: string;
  /** Folder for backups. */
  readonly folder: string;
  readonly models: number;
}

/** A service in a separate process, with the data of a busy one, for polite clients and a hostile neighbour. */
export interface Scene {
  readonly service: ServiceProcess;
  readonly politeKey: string;
  readonly target: Target;
  close(): Promise<void>;
}

export const names = { chat: "chat", stream: "stream", computed: "computed", hanging: "hangs.test" } as const;

const unreached = { requests_per_minute: 100_000_000, tokens_per_minute: 1_000_000_000, concurrency: 10_000 };

export async function openScene(options: SceneOptions): Promise<Scene> {
  const folder = await ServiceFolder.create();
  const weights = join(folder.folder, "computed.gguf");
  await writeRandomGguf(weights);
  await fillState(folder.dataDir, options);
  const names = await startHangingNames(options.isSystemNames);
  const env = { UIS_ADMIN_PASSWORD: "the-right-password", LOG_LEVEL: "error" };
  const service = await folder.start(configOf(weights, options, names), { env, ...options.spawn });
  const adminToken = readFileSync(join(folder.dataDir, "admin.token"), "utf8").trim();
  const admin = new ServiceClient(service.http, adminToken);
  const keyOf = async (account: string): Promise<string> => {
    const asked = { name: account, account, scope: "SCOPE_READ_WRITE" };
    const { status, json, text } = await admin.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", asked);
    if (status !== 200) throw new Error(`no key: ${text}`);
    return String(json["secret"]);
  };
  const { http, ops } = service;
  const { models } = options;
  const target = {
    http,
    ops,
    grpc: service.line.grpc,
    key: await keyOf("hostile"),
    adminToken,
    folder: folder.folder,
    models,
  };
  return {
    service,
    politeKey: await keyOf("polite"),
    target: { ...target, grpc: target.grpc.replace(/^\w+:\/\//, "") },
    async close() {
      await folder.remove();
      await names.close();
    },
  };
}

function configOf(weights: string, { models, isSystemNames }: SceneOptions, dns: DnsServer): object {
  const scripted = (id: string, settings: object) => ({ id, engine: "scripted", slots: 256, scripted: settings });
  return {
    models: [
      scripted(names.chat, { text: "one two three four five", tokens: 20, context_length: 100_000_000 }),
      scripted(names.stream, { text: "one two three four five", tokens: 50, token_delay_ms: 20 }),
      { id: names.computed, engine: "llama", source: `file:${weights}`, slots: 4, context_length: 2_048 },
      ...Array.from({ length: models }, (_, i) => scripted(`model-${i}`, { text: "one" })),
    ],
    engine: { threads: 1 },
    rate_limits: { default_key: unreached },
    webhooks: {
      allow_http: true,
      allow_private_cidrs: ["127.0.0.0/8"],
      ...(isSystemNames ? {} : { dns_servers: [dns.server] }),
    },
  };
}

/** A name server that never answers for the names that end in `hangs.test`. */
function startHangingNames(isSystemNames: boolean): Promise<DnsServer> {
  const zone = Object.fromEntries(hangingNames().map((name) => [name, "silence" as const]));
  return startDnsServer(zone, isSystemNames ? 53 : 0);
}

/** Host names that never resolve, one for each endpoint that an account may have. */
export function hangingNames(): readonly string[] {
  return Array.from({ length: 20 }, (_, i) => `name-${i}.${names.hanging}`);
}

const hourMs = 3_600_000;
const hours = 80 * 24;
const keysUsed = 52;

/** Writes rows directly into the state, because creating them by requests would take an hour. */
async function fillState(dataDir: string, { usageRows, keys }: SceneOptions): Promise<void> {
  await (await openEmbeddedState({ dataDir, log: silentLog })).close();
  const db = openSqlite(join(dataDir, "uis.db"));
  const models = Math.max(1, Math.round(usageRows / hours / keysUsed));
  const firstMs = Math.floor(Date.now() / hourMs - hours) * hourMs;
  db.exec(`BEGIN;
    WITH RECURSIVE
      hour (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM hour WHERE n < ${hours - 1}),
      key (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM key WHERE n < ${keysUsed + 9}),
      model (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM model WHERE n < ${models + 9})
    INSERT INTO usage_hours
      (account, start_ms, key_id, model, operation, requests, prompt_tokens, completion_tokens, cached_tokens, cost_nano)
      SELECT 'hostile', ${firstMs} + hour.n * ${hourMs}, 'key_' || key.n, 'model-' || model.n, 'chat', 1, 10, 20, 0, 5
      FROM hour, key, model;
    WITH RECURSIVE key (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM key WHERE n < ${keys})
    INSERT INTO api_keys
      (id, name, account, scope, hash, prefix, last4, models_json, created_at_ms, created_by)
      SELECT printf('key_%024d', n), 'many ' || n, 'many', 'read', printf('%064x', n), 'sk-uis-aaa', '0000', '[]', n,
        'administrator'
      FROM key;
    COMMIT`);
  db.close();
}

/** A receiver that accepts every request and never answers. */
export async function startHangingReceiver(): Promise<{ readonly port: number; close(): void }> {
  const server = createServer(() => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
