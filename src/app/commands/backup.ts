import { resolve } from "node:path";
import { ConnectError } from "@connectrpc/connect";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { StateOpenError } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { createLogger } from "../../telemetry/logger.js";
import { type CliIo, CommandError, print } from "../command-line/cli-io.js";
import { backUpStoppedState, repairTimes, restoreEmbeddedState } from "../compose/state.js";
import type { Config } from "../config/schema.js";
import { type CommandOptions, loadForCommand } from "./load-for-command.js";
import {
  administratorTarget,
  explained,
  findService,
  isUnreachable,
  serviceClient,
  toCommandError,
} from "./service-client.js";
import { requireUnused } from "./unused-folder.js";

/** `uis backup`: the running service copies the file that it has open; without a service this process does. */
export async function backup(io: CliIo, file: string, options: CommandOptions): Promise<void> {
  const path = resolve(io.cwd, file);
  await writeBackup(io, path, options);
  print(io, options, { file: path }, `The state is copied to ${path}.`);
}

/** Copies the embedded database to an absolute path. Resolves with whether the service that uses it is running or stopped. */
export async function writeBackup(io: CliIo, path: string, options: CommandOptions): Promise<"running" | "stopped"> {
  if (await backUpByService(io, path, options)) return "running";
  await backUpStopped(io, path, options);
  return "stopped";
}

/** Returns false if no service runs. Rejects if the operator named a service and it does not answer. */
async function backUpByService(io: CliIo, path: string, options: CommandOptions): Promise<boolean> {
  const { isNamed } = await findService(io, options);
  const target = await administratorTarget(io, options).catch((error: unknown) => {
    // A running service has written its token into the data folder: without one, none runs.
    if (error instanceof CommandError && !isNamed) return null;
    throw error;
  });
  if (target === null) return false;
  try {
    await serviceClient(SystemService, target).createBackup({ path });
    return true;
  } catch (error) {
    if (!isNamed && isUnreachable(ConnectError.from(error).cause)) return false;
    throw toCommandError(error, target);
  }
}

async function backUpStopped(io: CliIo, path: string, options: CommandOptions): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  requireEmbedded(config);
  const log = createLogger({ level: "error", sink: io.stderr });
  await backUpStoppedState(dataDir, path, { clock: createSystemClock(), log }).catch(explain);
}

function requireEmbedded({ state }: Config): void {
  if (state.redis_url === null) return;
  throw new CommandError(
    "the state is in Redis, which has its own backup (redis-cli --rdb); this command copies embedded state",
  );
}

/** `uis restore`: the service must be stopped. */
export async function restore(io: CliIo, name: string, options: CommandOptions): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  const file = resolve(io.cwd, name);
  requireEmbedded(config);
  await requireUnused(dataDir);
  const replaced = restoreInto(dataDir, file);
  const kept = `The replaced state is kept in ${replaced}. Delete that file when you no longer need it.`;
  const lines = [`The state in ${dataDir} is that of ${name}.`, ...(replaced === null ? [] : [kept])];
  print(io, options, { file, data_dir: dataDir, replaced }, ...lines);
}

/** Returns the file with the replaced state; null if there was none. */
function restoreInto(dataDir: string, file: string): string | null {
  try {
    return restoreEmbeddedState({ dataDir, file, nowMs: Date.now() });
  } catch (error) {
    return explain(error);
  }
}

function explain(error: unknown): never {
  if (error instanceof StateOpenError) throw new CommandError(`${error.message}: ${error.fix}`, { cause: error });
  throw error;
}

/** `uis state repair-time`: the service must be stopped. */
export async function repairTime(io: CliIo, options: CommandOptions): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  if (config.state.redis_url !== null) {
    throw new CommandError(
      "the state is in Redis, whose times follow its own clock; this command repairs the embedded file",
    );
  }
  await requireUnused(dataDir);
  const nowMs = Date.now();
  const log = createLogger({ level: "error", sink: io.stderr });
  const { changed, kept } = await repairTimes({ dataDir, nowMs, log }).catch(explain);
  const now = new Date(nowMs).toISOString();
  const rows = Object.entries(changed).map(([table, count]) => `  ${table}: ${count}`);
  const lines =
    kept === null
      ? [`No time in ${dataDir} is ahead of this machine's clock, ${now}.`]
      : [`Moved to ${now}, rows by table:`, ...rows, `The state before is kept in ${kept}.`];
  print(io, options, { data_dir: dataDir, now, changed, kept }, ...lines);
}

/** `uis admin link` */
export async function adminLink(io: CliIo, options: CommandOptions): Promise<void> {
  const target = await administratorTarget(io, options);
  const { path } = await explained(target, serviceClient(SessionService, target).createSetupLink({}));
  const url = target.url + path;
  print(io, options, { url }, url, "", "Valid for one use within an hour.");
}
