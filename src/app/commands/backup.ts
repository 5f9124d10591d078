import { resolve } from "node:path";
import { ConnectError } from "@connectrpc/connect";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { StateOpenError } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import { createLogger } from "../../telemetry/logger.js";
import { type CliIo, CommandError, printJson, printLine } from "../command-line/cli-io.js";
import { backUpStoppedState, restoreEmbeddedState } from "../compose/state.js";
import { type ConfigOptions, loadForCommand } from "./load-for-command.js";
import { administratorTarget, findService, isUnreachable, serviceClient, toCommandError } from "./service-client.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
}

/** `uis backup`: by the running service, which holds the file; by this process when none runs. */
export async function backup(io: CliIo, file: string, options: Options): Promise<void> {
  const path = resolve(io.cwd, file);
  if (!(await backUpByService(io, path, options))) await backUpHere(io, path, options);
  if (options.json) printJson(io, { file: path });
  else printLine(io, `The state is copied to ${path}.`);
}

/** False when no service runs. One that the operator named must: the state of another folder is not what was asked for. */
async function backUpByService(io: CliIo, path: string, options: Options): Promise<boolean> {
  const { isNamed } = await findService(io, options);
  const target = await administratorTarget(io, options).catch((error: unknown) => {
    // A service that runs has left its token: without one, there is none to ask.
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

/** By this process, of a service that stands. */
async function backUpHere(io: CliIo, path: string, options: Options): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  if (config.state.redis_url !== null) {
    throw new CommandError(
      "the state is in Redis, which has its own backup (redis-cli --rdb); this command copies embedded state",
    );
  }
  const log = createLogger({ level: "error", sink: io.stderr });
  await backUpStoppedState(dataDir, path, { clock: createSystemClock(), log }).catch(explain);
}

/** `uis restore`: the service must not run. */
export async function restore(io: CliIo, file: string, options: Options): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  const replaced = restoreHere(dataDir, resolve(io.cwd, file));
  if (options.json) {
    printJson(io, { file: resolve(io.cwd, file), data_dir: dataDir, replaced });
    return;
  }
  printLine(io, `The state in ${dataDir} is that of ${file}.`);
  if (replaced !== null)
    printLine(io, `The state it replaced is kept in ${replaced}. Delete that file when you need it no more.`);
}

/** Returns the file that keeps the replaced state; null when there was none. */
function restoreHere(dataDir: string, file: string): string | null {
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

interface Options extends ConfigOptions {
  readonly json?: boolean;
}

/** `uis admin link` */
export async function adminLink(io: CliIo, options: Options): Promise<void> {
  const target = await administratorTarget(io, options);
  try {
    const { path } = await serviceClient(SessionService, target).createSetupLink({});
    const url = target.url + path;
    if (options.json) printJson(io, { url });
    else printLine(io, `${url}\n\nGood for one use within an hour.`);
  } catch (error) {
    throw toCommandError(error, target);
  }
}
