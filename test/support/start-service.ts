import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../src/app/config/load-config.js";
import type { SettingPath } from "../../src/app/config/problem.js";
import { readSecrets } from "../../src/app/config/secrets.js";
import { readUpstreams } from "../../src/app/config/upstreams.js";
import { type Service, startService as start } from "../../src/app/service/service.js";
import { createLogger, type LogLevel } from "../../src/telemetry/logger.js";

export interface StartOptions {
  /**
   * Settings as in the configuration file, by group: `{ models: [...], limits: { stall: "200ms" } }`. They override the
   * test's defaults: all ports 0, state in memory, a new data folder, and the scripted models `test-chat` and
   * `test-embed`.
   */
  readonly config?: object;
  /** Environment variables such as UIS_BOOTSTRAP_API_KEY. */
  readonly env?: Readonly<Record<string, string>>;
  readonly logLevel?: LogLevel;
  /** A list that also receives the lines of the log: several processes can share it, so that all lines are in order. */
  readonly allLogs?: Record<string, unknown>[];
}

/** The contents of `/debug/state`. */
export interface DebugState {
  readonly requests: { readonly running: number; readonly waiting: number; readonly by_stage: Record<string, number> };
  readonly models: readonly {
    readonly id: string;
    readonly slots: number;
    readonly busy: number;
    readonly waiting: number;
    readonly produced_tokens: number;
  }[];
  readonly deployments: readonly {
    readonly id: string;
    readonly model: string;
    readonly upstream: string | null;
    readonly state: string;
    readonly reason: string | null;
    readonly until: string | null;
    readonly outstanding_requests: number;
    readonly outstanding_tokens: number;
    readonly weight: number;
    readonly priority: number;
  }[];
  readonly connections: { readonly http: number; readonly grpc: number };
  readonly streams: number;
  readonly timers: number;
  readonly deliveries: { readonly due: number; readonly in_flight: number };
  readonly live_leases: number;
}

/** A whole service in this process, for tests. */
export interface RunningService {
  /** `http://127.0.0.1:<port>/v1` */
  readonly api: string;
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  /** `127.0.0.1:<port>` */
  readonly grpc: string;
  /** `http://127.0.0.1:<port>` */
  readonly ops: string;
  /** Secret of a key with the scope read_write. */
  readonly key: string;
  /** Secret of a key with the scope read. */
  readonly readKey: string;
  readonly adminToken: string;
  readonly dataDir: string;
  /** Parsed lines of the log so far. */
  readonly logs: readonly Record<string, unknown>[];
  readonly service: Service;
  debugState(): Promise<DebugState>;
  /** Drains and closes; limits.drain bounds the duration of running requests. */
  close(): Promise<void>;
}

/** Models for chat and embeddings without a delay: enough for most tests. */
const defaultModels = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script." } },
  { id: "test-embed", engine: "scripted", scripted: { dimensions: 8 } },
];

const baseSettings: readonly { readonly path: SettingPath; readonly value: unknown }[] = [
  { path: ["server", "port"], value: 0 },
  { path: ["server", "grpc_port"], value: 0 },
  { path: ["server", "ops_port"], value: 0 },
  { path: ["state", "durability"], value: "none" },
  { path: ["limits", "drain"], value: "500ms" },
  { path: ["models"], value: defaultModels },
];

/** Replaces `startProcess` in `startService`; null: one process is started. */
let starter: ((options: StartOptions) => Promise<RunningService>) | null = null;

/** Sets the function that `startService` calls, so that the same tests run with another form of the service; null resets it. */
export function startEachWith(start: typeof starter): void {
  starter = start;
}

/** Starts a service on free ports with state in memory, unless the configuration overrides this. */
export function startService(options: StartOptions = {}): Promise<RunningService> {
  return starter === null ? startProcess(options) : starter(options);
}

/** Starts a service with one process, inside this process. */
export async function startProcess(options: StartOptions = {}): Promise<RunningService> {
  const folder = await mkdtemp(join(tmpdir(), "uis-test-"));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    const { service, logs } = await startIn(folder, options);
    return await toRunningService(service, logs, removeFolder);
  } catch (error) {
    await removeFolder();
    throw error;
  }
}

type LogLines = Record<string, unknown>[];

async function startIn(folder: string, { config = {}, env = {}, logLevel = "info", allLogs }: StartOptions) {
  const settings = [...baseSettings, { path: ["data_dir"], value: join(folder, "data") }, ...settingsOf(config)];
  const loaded = await loadConfig({ env, cwd: folder, flags: settings.map((flag) => ({ ...flag, from: "test" })) });
  const logs: LogLines = [];
  const write = (line: string): void => {
    const parsed = JSON.parse(line) as Record<string, unknown>;
    logs.push(parsed);
    allLogs?.push(parsed);
  };
  const log = createLogger({ level: logLevel, sink: { write } });
  const environment = { PATH: process.env["PATH"], ...env };
  const { config: whole } = loaded;
  const upstreams = await readUpstreams(loaded, { env, cwd: folder });
  return { service: await start({ config: whole, secrets: readSecrets(env), upstreams, log, environment }), logs };
}

async function toRunningService(
  service: Service,
  logs: LogLines,
  removeFolder: () => Promise<void>,
): Promise<RunningService> {
  const { addresses, config, parts } = service;
  const key = service.firstKey ?? (await parts.apiKeys.create({ name: "test", scope: "read_write" }));
  const readKey = await parts.apiKeys.create({ name: "test-read", scope: "read" });
  return {
    api: `${addresses.http}/v1`,
    http: addresses.http,
    grpc: addresses.grpc,
    ops: addresses.ops,
    key: key.secret,
    readKey: readKey.secret,
    adminToken: service.adminToken,
    dataDir: config.data_dir,
    logs,
    service,
    debugState: async () => (await parts.debugState()) as DebugState,
    async close() {
      await service.stop();
      await removeFolder();
    },
  };
}

/** Yields each setting separately, so that a test's groups are merged with the default settings instead of replacing them. */
function* settingsOf(value: object, path: SettingPath = []): Iterable<{ path: SettingPath; value: unknown }> {
  for (const [name, inner] of Object.entries(value)) {
    const isGroup = typeof inner === "object" && inner !== null && !Array.isArray(inner);
    if (isGroup) yield* settingsOf(inner, [...path, name]);
    else yield { path: [...path, name], value: inner as unknown };
  }
}
