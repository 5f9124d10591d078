import { once } from "node:events";
import { type CliIo, isPrettyLog } from "../command-line/cli-io.js";
import type { Config } from "../config/schema.js";
import { fallbackWarnings, warningsOf } from "../doctor/settings.js";
import { servedIds, startService } from "../service/service.js";
import { PlainOutput, type ServeOutput } from "./plain-output.js";
import {
  type ConfigLoader,
  drainMsOf,
  exitOnUnhandledErrors,
  onReloadSignal,
  onStopSignal,
  usageLostError,
} from "./serve-process.js";
import { TerminalOutput } from "./terminal-output.js";

interface OnlyProcessOptions {
  readonly json?: boolean;
  /** Source of a chat model. */
  readonly model?: string;
  /** Starts with an empty database if the former one is lost. */
  readonly newStore?: boolean;
}

/** Runs the service in this process; resolves when it has stopped. */
export async function runOnlyProcess(
  io: CliIo,
  options: OnlyProcessOptions,
  { config, secrets, upstreams }: Awaited<ReturnType<ConfigLoader["start"]>>,
  loader: Pick<ConfigLoader, "again">,
): Promise<void> {
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
      const next = await loader.again();
      await service.reload.apply(next.config, next.upstreams);
      warnOfFallbacks(next.config);
    };
    onReloadSignal(io, stop, reload, log);
    const { signal } = stopping;
    if (!signal.aborted) await Promise.all([output.started(service, signal), once(signal, "abort")]);
    const drainMs = drainMsOf(signal.reason, io);
    output.stopping(service, drainMs);
    await service.stop(drainMs);
    const lost = usageLostError(service.usageLost());
    if (lost !== null) throw lost;
  } finally {
    output.flush();
  }
}

interface OutputSettings extends Pick<Config, "log"> {
  /** Whether the only text on stdout is the line of `--json`. */
  readonly json: boolean;
}

/** Output with redrawn progress on a terminal; plain text and the log in its configured form otherwise. */
function openServeOutput(io: CliIo, { log, json }: OutputSettings): ServeOutput {
  const isTerminal = io.stderr.isTTY === true;
  const isPretty = isPrettyLog(log.format, io.stderr);
  if (isPretty && isTerminal && io.env["TERM"] !== "dumb") return new TerminalOutput(io, { level: log.level, json });
  return new PlainOutput(io, { level: log.level, isPretty, json });
}
