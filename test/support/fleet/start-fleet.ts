import { randomBytes } from "node:crypto";
import { startRedis } from "../redis/start-redis.js";
import { type RunningService, type StartOptions, startProcess } from "../start-service.js";

export const coreToken = "token-of-this-fleet";

/** A gateway and its cores (processes that run models for the gateway), all in this process, with one new Redis. */
export interface Fleet {
  readonly gateway: RunningService;
  readonly cores: readonly RunningService[];
  readonly redisUrl: string;
  /** Variables and settings for a further process of the fleet. */
  readonly shared: { readonly env: Readonly<Record<string, string>>; readonly config: object };
  close(): Promise<void>;
}

export interface FleetOptions extends StartOptions {
  readonly cores?: number;
  /** Returns the address at which the gateway reaches a core; default: the core's own address. */
  readonly reach?: (address: string) => Promise<string>;
  /** The setting `core` of the cores and of the gateway, without addresses; default: the same token. */
  readonly trust?: { readonly core: object; readonly gateway: object };
}

/** Starts the cores with the given settings, and a gateway for them that has their limits. */
export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const { cores: count = 1, trust = { core: { token: coreToken }, gateway: { token: coreToken } } } = options;
  const redis = await startRedis({ aof: "no" });
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), ...options.env };
  const state = { redis_url: redis.url, durability: "every-write", allow_volatile: true };
  const { logLevel = "info", allLogs = [] } = options;
  const given = options.config as { server?: object; state?: object } | undefined;
  const config = { ...given, state: { ...given?.state, ...state } };
  const cores: RunningService[] = [];
  const close = async (last: RunningService | null): Promise<void> => {
    await last?.close();
    await Promise.all(cores.map((core) => core.close()));
    await redis.remove();
  };
  try {
    for (let i = 0; i < count; i += 1) {
      const settings = { ...config, server: { ...given?.server, role: "core" }, core: trust.core };
      cores.push(await startProcess({ config: settings, env, logLevel, allLogs }));
    }
    const { reach = (address: string) => Promise.resolve(address) } = options;
    const addresses = await Promise.all(cores.map(({ grpc }) => reach(grpc)));
    const settings = {
      ...config,
      server: { ...given?.server, role: "gateway" },
      core: { addresses, ...trust.gateway },
    };
    const gateway = await startProcess({ config: settings, env, logLevel, allLogs });
    return { gateway, cores, redisUrl: redis.url, shared: { env, config }, close: () => close(gateway) };
  } catch (error) {
    await close(null);
    throw error;
  }
}

/**
 * A fleet of one gateway and one core as one service: clients connect to the gateway, and the core does the work. Changes of
 * the configuration apply to both. The log contains the lines of both, with one line for each request.
 */
export async function startThroughGateway(options: StartOptions): Promise<RunningService> {
  const allLogs: LogLine[] = [];
  const env = { UIS_ADMIN_TOKEN: "token-of-the-administrator-of-this-fleet", ...options.env };
  const { gateway, cores, close } = await startFleet({ ...options, env, allLogs });
  const [core] = cores as [RunningService];
  const idle = await core.debugState();
  const { service } = gateway;
  return {
    ...gateway,
    adminToken: env.UIS_ADMIN_TOKEN,
    service: {
      ...service,
      reload: {
        async apply(next, upstreams) {
          await service.reload.apply(next, upstreams);
          await core.service.reload.apply({ ...core.service.config, ...changesOf(next, service.config) }, upstreams);
        },
        close: () => service.reload.close(),
      },
    },
    get logs() {
      return joinedLog(allLogs, core);
    },
    async debugState() {
      const state = await core.debugState();
      // The timers of the connection to Redis are not counted.
      return { ...state, timers: Math.max(0, state.timers - idle.timers) };
    },
    close,
  };
}

type LogLine = Record<string, unknown>;

/** The settings of `next` that differ from `before`. */
function changesOf<T extends object>(next: T, before: T): Partial<T> {
  const entries = Object.entries(next).filter(([name, value]) => value !== before[name as keyof T]);
  return Object.fromEntries(entries) as Partial<T>;
}

/**
 * The log lines of a core and its gateway. The two lines of a request are merged into one with the core's figures and the
 * gateway's outcome, which clients see. The gateway's line is left out while the core's line may still follow.
 */
function joinedLog(all: readonly LogLine[], core: RunningService): readonly LogLine[] {
  const ofCore = new Map(core.logs.filter(isRequest).map((line) => [line["request_id"], line]));
  const isBusy = core.service.parts.live.size > 0;
  const ofGateway = new Map(
    all
      .filter((line) => isRequest(line) && ofCore.get(line["request_id"]) !== line)
      .map((line) => [line["request_id"], line]),
  );
  return all.flatMap((line) => {
    if (!isRequest(line)) return [line];
    const figures = ofCore.get(line["request_id"]);
    if (figures === undefined) return isBusy ? [] : [line];
    if (figures !== line) return [];
    const { outcome, error } = ofGateway.get(line["request_id"]) ?? line;
    return [{ ...line, outcome, error }];
  });
}

function isRequest({ msg }: LogLine): boolean {
  return msg === "request";
}
