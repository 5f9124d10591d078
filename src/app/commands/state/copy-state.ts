import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { StateOpenError } from "../../../domain/service/state.js";
import { copiedKinds, type StateSource, type StateTarget } from "../../../domain/service/state-copy.js";
import { createSystemClock } from "../../../lib/clock.js";
import { errorText } from "../../../lib/display-text.js";
import { createLogger } from "../../../telemetry/logger.js";
import { type CliIo, CommandError, exitCode, print } from "../../command-line/cli-io.js";
import { numeric, tableLines } from "../../command-line/table.js";
import { keyFile } from "../../compose/master-key.js";
import { openCopySource, openCopyTarget } from "../../compose/state-copy.js";
import type { Config } from "../../config/schema.js";
import { readSecrets } from "../../config/secrets.js";
import { writeBackup } from "../backup.js";
import { type CommandOptions, loadForCommand } from "../load-for-command.js";

interface CopyOptions extends CommandOptions {
  readonly to: string;
  readonly check?: boolean;
}

/**
 * `uis state copy`: a backup of the embedded state, as `uis backup` writes it, is the source, so the service may run. It is
 * written into the data folder, which the service can write, and deleted afterwards.
 */
export async function copyState(io: CliIo, options: CopyOptions): Promise<number> {
  const { config } = await loadForCommand(io, options);
  const { masterKey } = readSecrets(io.env);
  requireEmbedded(config);
  const dataDir = resolve(io.cwd, config.data_dir);
  const file = join(dataDir, "uis.db.copying");
  const log = createLogger({ level: "silent", sink: io.stderr });
  const target = await openCopyTarget(options.to, config, { clock: createSystemClock(), log });
  try {
    // An earlier command that was killed may have left the file.
    await rm(file, { force: true });
    const owner = await writeBackup(io, file, options);
    if (!existsSync(file)) {
      throw new CommandError(`the service has written its copy to ${file} on another machine: run this command there`);
    }
    const source = await openCopySource(file, dataDir, masterKey);
    try {
      if (owner === "stopped") noteRunningRequests(io, source);
      if (options.check) return await compare(io, options, source, target);
      await copy(io, options, source, target);
      for (const warning of target.warnings) io.stderr.write(`warning: ${warning}\n`);
      if (masterKey === null && !options.json) {
        print(io, options, null, "", `Start the new service with UIS_MASTER_KEY=$(cat ${keyFile(dataDir)}).`);
      }
      return exitCode.done;
    } finally {
      source.close();
    }
  } finally {
    await target.close();
    await rm(file, { force: true }).catch((error: unknown) => {
      io.stderr.write(`warning: the backup ${file} could not be deleted: ${errorText(error)}\n`);
    });
  }
}

function requireEmbedded({ state }: Config): void {
  if (state.redis_url === null) return;
  throw new StateOpenError(
    "state.redis_url (REDIS_URL) is set, so this installation has no embedded state",
    "run the command with the configuration of the old installation, without REDIS_URL",
  );
}

/** Warns of requests that ran when the service was killed: their usage is in the file only after its next start. */
function noteRunningRequests(io: CliIo, { runningRequests }: StateSource): void {
  if (runningRequests === 0) return;
  io.stderr.write(
    `warning: the service ended while ${runningRequests} requests ran, whose usage is not in the state yet; start and ` +
      "stop it, then copy again\n",
  );
}

async function copy(io: CliIo, options: CopyOptions, source: StateSource, target: StateTarget): Promise<void> {
  const counts = await target.copy(source);
  const rows = copiedKinds.map((kind) => [kind, String(counts.get(kind) ?? 0)]);
  const document = { source: source.id, copied: Object.fromEntries(counts) };
  print(io, options, document, ...tableLines(io, ["KIND", numeric("COPIED")], rows));
}

async function compare(io: CliIo, options: CopyOptions, source: StateSource, target: StateTarget): Promise<number> {
  const found = await target.compare(source);
  const isEqual = [...found.values()].every(({ differing, surplus }) => differing + surplus === 0);
  const rows = [...found].map(([kind, each]) => [kind, ...[each.records, each.differing, each.surplus].map(String)]);
  const columns = ["KIND", numeric("RECORDS"), numeric("MISSING OR DIFFERENT"), numeric("ONLY IN REDIS")];
  const kinds = [...found].map(([kind, { records, differing, surplus }]) => ({ kind, records, differing, surplus }));
  const verdict = isEqual
    ? "Redis has the same state."
    : "Redis has another state: run uis state copy without --check.";
  print(io, options, { source: source.id, equal: isEqual, kinds }, ...tableLines(io, columns, rows), "", verdict);
  return isEqual ? exitCode.done : exitCode.failed;
}
