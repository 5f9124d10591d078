import type { Logger } from "../../domain/ports.js";
import type { State, StateHealth } from "../../domain/state.js";
import { startWorker } from "../../lib/start-worker.js";
import { WorkerLink } from "./worker-link.js";
import type { WorkerStart } from "./worker-messages.js";

/**
 * Opens the state kept in `<dataDir>/uis.db`: one file, one connection, one worker thread. One process at a time.
 * Rejects with StateOpenError, which names the cause and the fix.
 */
export async function openEmbeddedState(deps: { readonly dataDir: string; readonly log: Logger }): Promise<State> {
  const { dataDir, log } = deps;
  const link = await WorkerLink.open(startWorker(import.meta.url, { dataDir } satisfies WorkerStart), log);
  for (const warning of link.openWarnings) log.warn({ data_dir: dataDir }, warning);
  return {
    kind: "embedded",
    keys: {
      findByHash: (hash) => link.read("findKey", hash),
      insert: (record) => link.write("insertKey", record),
      insertFirst: (record) => link.write("insertFirstKey", record),
      list: (page) => link.read("listKeys", page),
      revoke: (id, atMs) => link.write("revokeKey", id, atMs),
      touch: (id, atMs) => link.write("touchKey", id, atMs),
    },
    catalog: {
      firstSeen: (ids, nowMs) => link.write("firstSeen", ids, nowMs),
    },
    health: () => healthOf(link),
    close: () => link.close(),
  };
}

async function healthOf(link: WorkerLink): Promise<StateHealth> {
  const askedAtMs = performance.now();
  const problem = await link.read("ping").then(
    () => null,
    (error: Error) => error.message,
  );
  const warnings = [...link.openWarnings];
  if (problem !== null) warnings.push(problem);
  if (link.writeFault !== null) warnings.push(`The last write failed: ${link.writeFault}.`);
  return { ok: problem === null, latencyMs: performance.now() - askedAtMs, durability: "every-write", warnings };
}
