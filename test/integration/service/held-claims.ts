import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import type { RedisProcess } from "../../support/redis/redis-process.js";

/** A delivery with a running lease, which may belong to a dead process. */
export interface HeldClaim {
  readonly deliveryId: string;
  /** Unique for each claim. */
  readonly fence: string;
}

/** Claims in the data folder of a dead process. Opening the file changes it, so pass a copy. */
export function heldInFile(dataDir: string): HeldClaim[] {
  const db = openSqlite(databaseFile(dataDir));
  const rows = db
    .prepare("SELECT fence, id FROM leases JOIN deliveries ON number = delivery_number WHERE ends_at_ms > ?")
    .all(Date.now());
  db.close();
  return rows.map((row) => ({ deliveryId: String(row["id"]), fence: String(row["fence"]) }));
}

const readClaims = `
  local held, time = {}, redis.call('TIME')
  local now_us = string.format('%.0f', time[1] * 1000000 + time[2])
  for _, key in ipairs(redis.call('KEYS', 'uis:*:claims')) do
    for _, word in ipairs(redis.call('ZRANGEBYSCORE', key, now_us, '+inf', 'WITHSCORES')) do held[#held + 1] = word end
  end
  return held`;

/** Claims of all processes that use this server. */
export async function heldInRedis(redis: RedisProcess): Promise<HeldClaim[]> {
  const words = (await redis.cli("eval", readClaims, "0")).split("\n").filter((word) => word !== "");
  return words.flatMap((deliveryId, place) => (place % 2 === 0 ? { deliveryId, fence: words[place + 1] ?? "" } : []));
}
