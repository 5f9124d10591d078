import { once } from "node:events";
import { resolve } from "node:path";
import type { Logger } from "../../domain/call/ports.js";
import { type CliIo, CommandError, UsageError } from "../command-line/cli-io.js";
import type { Config } from "../config/schema.js";
import { readUpstreams } from "../config/upstreams.js";
import { fallbackWarnings, warningsOf } from "../doctor/settings.js";
import { PlainOutput, type ServeOutput } from "../serve/plain-output.js";
import { TerminalOutput } from "../serve/terminal-output.js";
import { servedIds, startService } from "../service/service.js";
import { addedUpstream } from "./added-upstream.js";
import { type CommandOptions, loadForCommand, loadForStart } from "./load-for-command.js";

interface ServeOptions extends CommandOptions {
  /** Source of a chat model. */
  readonly model?: string;
  /** Server of an upstream in addition to those of the configuration. */
  readonly upstream?: string;
  /** Begins with an empty state where the former one is lost. */
  readonly newStore?: boolean;
}

/** `uis serve`: resolves when the service has stopped. */
export async function serve(io: CliIo, given: ServeOptions): Promise<void> {
  const settings = given.upstream === undefined ? [] : await addedUpstream(io.env, given.upstream);
  const options = { ...given, settings };
  const inFolder = (config: Config): Config => ({
    ...config,
    data_dir: resolve(io.cwd, config.data_dir),
    spill_dir: config.spill_dir === null ? null : resolve(io.cwd, config.spill_dir),
  });
  const { config: loaded, secrets, upstreams } = await loadForStart(io, options);
  const config = inFolder(loaded);
  if (options.model !== undefined && config.models !== null) {
    throw new UsageError("--model replaces the default chat model, but the configuration has its own `models`");
  }
  const output = openServeOutput(io, { log: config.log, json: options.json === true });
  const { log } = output;
  const exit = (): never => {
    output.flush();
    process.exit(1);
  };
  exitOnUnhandledErrors(log, exit);
  const { stopping, stop } = onStopSignal(log, exit);
  try {
    const service = await startService({
      config,
      secrets,
      upstreams,
      log,
      environment: io.env,
      chatModel: options.model,
      newStore: options.newStore,
    });
    const warnOfFallbacks = (loaded: Config): void => {
      for (const warning of fallbackWarnings(loaded, servedIds(service.parts))) log.warn({}, warning);
    };
    for (const warning of warningsOf(config, io.env)) log.warn({}, warning);
    warnOfFallbacks(config);
    const reload = async (): Promise<void> => {
      const next = await loadForCommand(io, options);
      await service.reload.apply(inFolder(next.config), await readUpstreams(next, io));
      warnOfFallbacks(next.config);
    };
    onReloadSignal(io, stop, reload, log);
    const { signal } = stopping;
    if (!signal.aborted) await Promise.all([output.started(service, signal), once(signal, "abort")]);
    // Ctrl-C on a terminal: a person waits for the end.
    const isInteractive = signal.reason === "SIGINT" && io.stderr.isTTY === true;
    output.stopping(service, isInteractive ? interactiveDrainMs : null);
    await service.stop(isInteractive ? interactiveDrainMs : null);
    const lost = service.usageLost();
    if (lost === 0) return;
    throw new CommandError(
      `the usage of ${lost} finished requests is lost: the data folder cannot be written; ` +
        "free space on its disk, or set UIS_SPILL_DIR to a folder on another one",
    );
  } finally {
    output.flush();
  }
}

/** How long running requests may finish after Ctrl-C on a terminal, at most. */
const interactiveDrainMs = 5_000;

interface OutputSettings extends Pick<Config, "log"> {
  /** Whether the only text on stdout is the line of `--json`. */
  readonly json: boolean;
}

/** On a terminal lines for people and progress that is drawn again, elsewhere plain text and the log as configured. */
function openServeOutput(io: CliIo, { log, json }: OutputSettings): ServeOutput {
  const isTerminal = io.stderr.isTTY === true;
  const isPretty = log.format === "pretty" || (log.format === "auto" && isTerminal);
  if (isPretty && isTerminal && io.env["TERM"] !== "dumb") return new TerminalOutput(io, { level: log.level, json });
  return new PlainOutput(io, { level: log.level, isPretty, json });
}

/** `stopping` is aborted with the reason at the first SIGTERM or SIGINT, or by `stop`. A second signal exits at once. */
function onStopSignal(log: Logger, exit: () => never) {
  const stopping = new AbortController();
  const stop = (reason: string): void => {
    if (stopping.signal.aborted) return;
    log.info({ reason }, "stop requested");
    stopping.abort(reason);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stopping.signal.aborted) {
      log.error({ signal }, "exiting at once after a second signal");
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
function onReloadSignal(io: CliIo, stop: (reason: string) => void, reload: () => Promise<void>, log: Logger): void {
  const onError = (cause: unknown): void => log.error({ err: cause }, "the configuration was not reloaded");
  let previous = Promise.resolve();
  process.on("SIGHUP", () => {
    // On Windows the signal has no other meaning.
    if (process.platform === "win32" || io.terminal?.isLost() === true) stop("the terminal was closed");
    else previous = previous.then(reload).catch(onError);
  });
}

/** After an unhandled error the state of the process is unknown, so it logs the error and exits. */
function exitOnUnhandledErrors(log: Logger, exit: () => never): void {
  const onError = (cause: unknown): never => {
    log.error({ err: cause }, "unhandled error: the process exits");
    return exit();
  };
  process.on("uncaughtException", onError).on("unhandledRejection", onError);
}
