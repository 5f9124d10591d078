import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../../domain/call/ports.js";
import { createLogger } from "../../telemetry/logger.js";
import { openStderrSink } from "../../telemetry/stderr-sink.js";
import { type CliIo, CommandError, printJson, UsageError } from "../cli-io.js";
import type { Config } from "../config/schema.js";
import { type Service, startService } from "../service.js";
import { warningsOf } from "../start-warnings.js";
import { type ConfigOptions, loadForCommand, loadForStart } from "./load-for-command.js";
import { nextStepText, readyLine, readyText } from "./ready-text.js";

export interface ServeOptions extends ConfigOptions {
  readonly json?: boolean;
  /** Source of a chat model. */
  readonly model?: string;
}

/** `uis serve`: resolves when the service has stopped in order. */
export async function serve(io: CliIo, options: ServeOptions): Promise<void> {
  const inFolder = (config: Config): Config => ({
    ...config,
    data_dir: resolve(io.cwd, config.data_dir),
    spill_dir: config.spill_dir === null ? null : resolve(io.cwd, config.spill_dir),
  });
  const load = async (): Promise<Config> => inFolder((await loadForCommand(io, options)).config);
  const { config: loaded, secrets } = await loadForStart(io, options);
  const config = inFolder(loaded);
  if (options.model !== undefined && config.models !== null) {
    throw new UsageError("--model replaces the default chat model, but the configuration has its own `models`");
  }
  const sink = openStderrSink();
  const log = createLogger({ level: config.log.level, sink });
  endOnFaults(log, () => sink.flush());
  const { stop, begin } = onStopSignal(log, () => sink.flush());
  try {
    const service = await startService({ config, secrets, log, environment: io.env, chatModel: options.model });
    for (const warning of warningsOf(config, io.env)) log.warn({}, warning);
    const hasTerminal = (): boolean => io.terminal?.isLost() !== true;
    onReloadSignal(hasTerminal, begin, async () => service.reload.apply(await load()), log);
    if (options.json) printJson(io, readyLine(service));
    else await tellPeople(io, service, stop);
    await stop;
    await service.stop();
    if (service.usageLost() > 0) throw new CommandError(lostText(service.usageLost()));
  } finally {
    sink.flush();
  }
}

function lostText(requests: number): string {
  return (
    `the usage of ${requests} finished requests is lost: the data folder cannot be written; ` +
    "free its disk, or set UIS_SPILL_DIR to a folder on another one"
  );
}

/** How long people wait for a first request that is sure to name the right model; a hub is given up within it. */
const choiceMsMax = 6_000;

async function tellPeople(io: CliIo, service: Service, stop: Promise<void>): Promise<void> {
  io.stdout.write(readyText(service));
  await Promise.race([service.chatChosen, stop, delay(choiceMsMax, undefined, { ref: false })]);
  io.stdout.write(nextStepText(service));
}

interface AbortFlag {
  /** Resolves at the first SIGTERM or SIGINT, or when `begin` is called. */
  readonly stop: Promise<void>;
  begin(reason: string): void;
}

/** The first SIGTERM or SIGINT stops the service, a second one ends the process at once. */
function onStopSignal(log: Logger, flush: () => void): AbortFlag {
  let resolve = (): void => {};
  const stop = new Promise<void>((resolvePromise) => {
    resolve = resolvePromise;
  });
  let hasBegun = false;
  const begin = (reason: string): void => {
    if (hasBegun) return;
    hasBegun = true;
    log.info({ reason }, "stop requested");
    resolve();
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (hasBegun) {
      log.error({ signal }, "stopped at once by a second signal");
      flush();
      process.exit(1);
    }
    begin(signal);
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  return { stop, begin };
}

/**
 * SIGHUP reloads the configuration; a faulty one is logged and changes nothing. The same signal says that the terminal
 * was closed, which stops the service.
 */
function onReloadSignal(
  hasTerminal: () => boolean,
  stop: (reason: string) => void,
  reload: () => Promise<void>,
  log: Logger,
): void {
  let previous = Promise.resolve();
  process.on("SIGHUP", () => {
    if (!hasTerminal()) {
      stop("the terminal was closed");
      return;
    }
    previous = previous
      .then(reload)
      .catch((cause: unknown) => log.error({ err: cause }, "the configuration was not reloaded"));
  });
}

/** A fault that nobody handled: the state of the process is unknown, so it ends after saying why. */
function endOnFaults(log: Logger, flush: () => void): void {
  const end = (cause: unknown): never => {
    log.error({ err: cause }, "unhandled fault: the process ends");
    flush();
    process.exit(1);
  };
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);
}
