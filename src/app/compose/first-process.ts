import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openSqlite } from "../../state/embedded/database/sqlite.js";
import { createOpsListener } from "../../transports/ops/ops-listener.js";
import type { Config } from "../config/schema.js";
import { StartError } from "../process/lifecycle.js";
import { listenOps, loadOpsToken } from "../process/listeners.js";

type Pages = Omit<Parameters<typeof createOpsListener>[0], "token">;

/** Opens the listener for operators of a service with several workers: its pages are about all of them. */
export async function openPages(pages: Pages, server: Config["server"]) {
  const listener = createOpsListener({ ...pages, token: await loadOpsToken(server) });
  return { address: await listenOps(listener, server), listener };
}

/**
 * Locks a data folder for the workers of one service, whose spools are in it. The returned function releases it, as the end of
 * this process does. Throws StartError if another service holds it.
 */
export function lockDataFolder(dataDir: string): () => void {
  const folder = join(dataDir, "spool");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, "lock");
  const db = openSqlite(file);
  try {
    db.exec("PRAGMA busy_timeout = 0");
    db.exec("BEGIN EXCLUSIVE");
  } catch (cause) {
    db.close();
    const fix = "stop the other service, or choose another data folder with --data-dir (UIS_DATA_DIR)";
    throw new StartError(`the data folder ${dataDir} is in use by the workers of another service`, fix, { cause });
  }
  return () => db.close();
}
