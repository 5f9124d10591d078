import { randomBytes } from "node:crypto";
import { startRedis } from "../redis/start-redis.js";
import { byTier } from "../tier.js";
import { type DashboardOptions, type DashboardRun, startDashboard } from "./dashboard.js";

type Store = "embedded" | "Redis";

/** The pages must work the same with every store. */
const stores: readonly Store[] = ["embedded", "Redis"];

/** The short tier uses one store, because the state suite compares the stores. */
export const storesByTier = byTier<readonly Store[]>({ ci: ["embedded"], long: stores });

/** Starts a dashboard on the store. */
export async function startDashboardOn(store: Store, options: DashboardOptions = {}): Promise<DashboardRun> {
  const durability = "every-write";
  const start = (state: object, env: Readonly<Record<string, string>> = {}) =>
    startDashboard({
      ...options,
      config: { ...options.config, state },
      env: { ...env, ...options.env },
    });
  if (store === "embedded") return start({ durability });
  const redis = await startRedis();
  try {
    const run = await start(
      { durability, redis_url: redis.url },
      { UIS_MASTER_KEY: randomBytes(32).toString("base64") },
    );
    const close = async (): Promise<void> => {
      await run.close();
      await redis.remove();
    };
    return { ...run, close };
  } catch (error) {
    await redis.remove();
    throw error;
  }
}
