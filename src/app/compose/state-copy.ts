import type { Clock, Logger } from "../../domain/call/ports.js";
import type { StateSource, StateTarget } from "../../domain/service/state-copy.js";
import { openSnapshot } from "../../state/embedded/copy/snapshot.js";
import type { Config } from "../config/schema.js";
import { StartError } from "../process/lifecycle.js";
import { isKeyOf, keyFile, readMasterKey } from "./master-key.js";
import { commandTimeoutMs, redisTlsOf } from "./state.js";

/** Opens the Redis that a state is copied into. Rejects with StateOpenError. */
export async function openCopyTarget(
  url: string,
  config: Config,
  tools: { readonly clock: Clock; readonly log: Logger },
): Promise<StateTarget> {
  const { openCopyTarget: open } = await import("../../state/redis/copy/copy-target.js");
  const { allow_volatile: allowVolatile } = config.state;
  return await open({ url, tls: redisTlsOf(config), allowVolatile, openWithinMs: commandTimeoutMs, ...tools });
}

/**
 * Opens a backup as the source of a copy, and checks that its secrets were encrypted with the master key: `configured`, else
 * the one in the data folder. Rejects with StateOpenError or StartError.
 */
export async function openCopySource(backup: string, dataDir: string, configured: Buffer | null): Promise<StateSource> {
  const source = openSnapshot(backup);
  try {
    const masterKey = await readMasterKey(configured, dataDir);
    if (isKeyOf(masterKey, source.canary)) return source;
    const file = keyFile(dataDir);
    throw new StartError(
      `${configured === null ? file : "UIS_MASTER_KEY"} is not the key of this state's secrets`,
      configured === null
        ? "set UIS_MASTER_KEY to the value that the old service was started with"
        : `set it to the value that the old service was started with, or if that had none: export UIS_MASTER_KEY=$(cat ${file})`,
    );
  } catch (error) {
    source.close();
    throw error;
  }
}
