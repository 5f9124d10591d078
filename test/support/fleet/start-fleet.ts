import { randomBytes } from "node:crypto";
import { startRedis } from "../redis/start-redis.js";
import { type RunningService, type StartOptions, startProcess } from "../start-service.js";

export const coreToken = "token-of-this-fleet";

/** A gateway with its cores, each in this process, on one Redis of their own. */
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
  /** The address of a core for the gateway; default: its own. */
  readonly reach?: (address: string) => Promise<string>;
  /** `core:` of the cores and of the gateway, without addresses; default: the same token. */
  readonly trust?: { readonly core: object; readonly gateway: object };
}

/** Starts the cores with the given settings, and a gateway for them that has their limits. */
export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const { cores: count = 1, trust = { core: { token: coreToken }, gateway: { token: coreToken } } } = options;
  const redis = await startRedis({ aof: "no" });
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), ...options.env };
  const state = { redis_url: redis.url, durability: "every-write", allow_volatile: true };
  const { logLevel = "info" } = options;
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
      cores.push(await startProcess({ config: settings, env, logLevel }));
    }
    const { reach = (address: string) => Promise.resolve(address) } = options;
    const addresses = await Promise.all(cores.map(({ grpc }) => reach(grpc)));
    const settings = {
      ...config,
      server: { ...given?.server, role: "gateway" },
      core: { addresses, ...trust.gateway },
    };
    const gateway = await startProcess({ config: settings, env, logLevel });
    return { gateway, cores, redisUrl: redis.url, shared: { env, config }, close: () => close(gateway) };
  } catch (error) {
    await close(null);
    throw error;
  }
}

/**
 * A fleet of one gateway and one core as one service: clients reach the gateway, and the work is the core's. The log is that
 * of both, with one line for each request: the core's, if it came so far.
 */
export async function startThroughGateway(options: StartOptions): Promise<RunningService> {
  const { gateway, cores, close } = await startFleet(options);
  const [core] = cores as [RunningService];
  const idle = await core.debugState();
  return {
    ...gateway,
    get logs() {
      const ids = new Set(core.logs.filter(({ msg }) => msg === "request").map(({ request_id: id }) => id));
      const own = gateway.logs.filter(({ msg, request_id: id }) => msg !== "request" || !ids.has(id));
      return [...core.logs, ...own];
    },
    async debugState() {
      const state = await core.debugState();
      // The connection to Redis has timers of its own.
      return { ...state, timers: Math.max(0, state.timers - idle.timers) };
    },
    close,
  };
}
