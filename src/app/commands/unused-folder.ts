import { CommandError } from "../command-line/cli-io.js";
import { isStateInUse } from "../compose/state.js";
import { readServiceFile } from "../process/data-folder.js";
import { isServiceAt } from "./service-client.js";

/**
 * Rejects with CommandError while a service uses the data folder. A service with an embedded database holds its lock from the
 * beginning of its start; a service on Redis is found by its file service.json.
 */
export async function requireUnused(dataDir: string): Promise<void> {
  const running = await readServiceFile(dataDir);
  if (!isStateInUse(dataDir) && (running === null || !(await isServiceAt(running.url)))) return;
  const user = running === null ? "a running service" : `the service at ${running.url} (process ${running.pid})`;
  throw new CommandError(`${user} uses the data folder ${dataDir}: stop it first, or name its address with --url`);
}
