import type { Logger } from "../../domain/call/ports.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { type CliIo, CommandError } from "../command-line/cli-io.js";
import type { SettingValue } from "../config/environment.js";
import type { ConfigFile } from "../config/load-config.js";
import type { Config } from "../config/schema.js";
import type { Secrets } from "../config/secrets.js";

/** How long running requests may finish after Ctrl-C on a terminal, at most. */
const interactiveDrainMs = 5_000;

/** A configuration with absolute paths. */
export interface ServeConfig {
  readonly config: Config;
  /** Upstreams of the configuration, with their keys and certificates. */
  readonly upstreams: readonly UpstreamDefinition[];
  /** The file as it was read. */
  readonly read: ConfigFile;
}

/** Settings and file that a worker gets from the first process, and does not read by itself. */
export interface ReadBefore {
  /** Settings of `--upstream`. */
  readonly settings?: readonly SettingValue[];
  readonly read?: ConfigFile;
}

/** Loads the configuration of `uis serve`. Both functions reject with a ConfigError. */
export interface ConfigLoader {
  start(before?: ReadBefore): Promise<ServeConfig & { readonly secrets: Secrets }>;
  /** Loads it again while the service runs, without the secrets, which are read only at the start. */
  again(before?: ReadBefore): Promise<ServeConfig>;
}

/** Time for running requests after a stop signal; null: as configured. Ctrl-C on a terminal has a short one: a person waits. */
export function drainMsOf(reason: unknown, io: CliIo): number | null {
  return reason === "SIGINT" && io.stderr.isTTY === true ? interactiveDrainMs : null;
}

/** `stopping` is aborted with the reason at the first SIGTERM or SIGINT, or by `stop`. A second signal exits immediately. */
export function onStopSignal(log: Logger, exit: () => never) {
  const stopping = new AbortController();
  const stop = (reason: string): void => {
    if (stopping.signal.aborted) return;
    log.info({ reason }, "stop requested");
    stopping.abort(reason);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stopping.signal.aborted) {
      log.error({ signal }, "exiting immediately after a second signal");
      exit();
    }
    stop(signal);
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  return { stopping, stop };
}

/**
 * SIGHUP reloads the configuration; an invalid one is logged and changes nothing. If the terminal was closed, which sends
 * the same signal, the service stops.
 */
export function onReloadSignal(
  io: CliIo,
  stop: (reason: string) => void,
  reload: () => Promise<void>,
  log: Logger,
): void {
  const onError = (cause: unknown): void => log.error({ err: cause }, "the configuration was not reloaded");
  let previous = Promise.resolve();
  process.on("SIGHUP", () => {
    // On Windows the signal has no other meaning.
    if (process.platform === "win32" || io.terminal?.isLost() === true) stop("the terminal was closed");
    else previous = previous.then(reload).catch(onError);
  });
}

/** After an unhandled error the state of the process is unknown, so it logs the error and exits. */
export function exitOnUnhandledErrors(log: Logger, exit: () => never): void {
  const onError = (cause: unknown): never => {
    log.error({ err: cause }, "unhandled error: the process exits");
    return exit();
  };
  process.on("uncaughtException", onError).on("unhandledRejection", onError);
}

/** The error of a stop after which the usage of finished requests could not be written; null: all was written. */
export function usageLostError(lost: number): CommandError | null {
  if (lost === 0) return null;
  return new CommandError(
    `the usage of ${lost} finished requests is lost: the data folder cannot be written; ` +
      "free space on its disk, or set UIS_SPILL_DIR to a folder on another one",
  );
}
