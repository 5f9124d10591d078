import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "../eventually.js";
import { PowerCut } from "../power-cut.js";
import { type RedisServer, startRedis } from "./start-redis.js";

/** A span of `performance.now()`. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Redis on a simulated machine whose power can fail: unsynced data is lost then. */
export class PoweredRedis {
  readonly server: RedisServer;
  readonly #power: PowerCut;
  readonly #files: string;

  /** `folder` is empty and receives all files of the server. Needs `gcc`. */
  static async start(folder: string, aof: "everysec" | "always"): Promise<PoweredRedis> {
    const [own, redis] = [join(folder, "power"), join(folder, "redis")];
    await Promise.all([own, redis].map((each) => mkdir(each, { recursive: true })));
    const power = new PowerCut(own);
    const files = join(redis, "appendonlydir");
    const env = await power.environment(files);
    return new PoweredRedis(await startRedis({ aof, folder: redis, env }), power, files);
  }

  private constructor(server: RedisServer, power: PowerCut, files: string) {
    this.server = server;
    this.#power = power;
    this.#files = files;
  }

  /** Resolves when the server has not synced for this time. */
  async untilUnsynced(forMs: number): Promise<void> {
    await eventually(async () => Date.now() - (await this.#power.syncedAtMs()) > forMs, "Redis syncs less often");
  }

  /** Kills the server and drops unsynced data. Resolves with the span of time whose acknowledged writes may be lost. */
  async cutPower(): Promise<Span> {
    await this.server.kill();
    const toMs = performance.now();
    // One more millisecond, because `Date.now()` drops fractions.
    const unsyncedMs = Date.now() + 1 - (await this.#power.syncedAtMs());
    await this.#power.cut(this.#files);
    return { fromMs: toMs - unsyncedMs, toMs };
  }

  async powerUp(): Promise<void> {
    await this.#power.environment(this.#files);
    await this.server.restart();
  }
}
