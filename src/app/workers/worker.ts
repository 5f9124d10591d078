import cluster from "node:cluster";
import { once } from "node:events";
import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { SystemSchema } from "../../../gen/unified/admin/v1/system_pb.js";
import type { Logger } from "../../domain/call/ports.js";
import { StateOpenError } from "../../domain/service/state.js";
import type { History, HistoryRange } from "../../domain/service/status-history.js";
import { errorText } from "../../lib/display-text.js";
import { createLogger, openStderrSink } from "../../telemetry/logger.js";
import { type CliIo, exitCode } from "../command-line/cli-io.js";
import type { WorkerContext } from "../compose/context.js";
import type { ConfigFile } from "../config/load-config.js";
import { ConfigError, formatProblem } from "../config/problem.js";
import { fallbackWarnings, warningsOf } from "../doctor/settings.js";
import { StartError } from "../process/lifecycle.js";
import { type ConfigLoader, exitOnUnhandledErrors, type ServeConfig, usageLostError } from "../serve/serve-process.js";
import { commandName, nextStepText, readyLine, readyText } from "../serve/start-text.js";
import { type Service, servedIds, startService } from "../service/service.js";
import { Channel, type Handlers, type OnFailed } from "./channel.js";
import { toPrimary, toWorker, type WorkerReady, type WorkerRefusal, type WorkerStart } from "./messages.js";

interface WorkerOptions {
  readonly json?: boolean;
}

/** Longest wait for the start data of the first process. */
const startMsMax = 60_000;

/** `uis serve` in a worker: resolves with the exit code when the service of this process has stopped. */
export async function runWorker(io: CliIo, options: WorkerOptions, loader: ConfigLoader): Promise<number> {
  const stopping = new AbortController();
  let drainMs: number | null = null;
  const handlers: Record<string, (body: never) => unknown> = {
    [toWorker.stop]: (body: number | null) => {
      drainMs = body;
      stopping.abort();
    },
  };
  // A terminal sends these signals to all processes of its group. Only the first process handles them.
  process.on("SIGINT", () => {}).on("SIGHUP", () => {});
  process.on("SIGTERM", () => stopping.abort());
  const sink = openStderrSink();
  // Replaced by a logger with the configured level once that is known.
  let log = createLogger({ level: "info", sink });
  const channel = openChannel(handlers, (err, name) =>
    log.error({ err, name }, "a message of the first process was not handled"),
  );
  const start = (await channel.askOne(toPrimary.start, null, startMsMax)) as WorkerStart;
  try {
    const { settings } = start;
    const { config, secrets, upstreams } = await loader.start({ settings, read: start.source });
    log = createLogger({ level: config.log.level, sink, worker: start.number });
    exitOnUnhandledErrors(log, () => {
      sink.flush();
      process.exit(exitCode.failed);
    });
    const worker = toContext(start, channel);
    const service = await startService({ config, secrets, upstreams, log, environment: io.env, worker });
    serveQuestions(service, handlers);
    const reload = async (read: ConfigFile): Promise<void> => {
      const next: ServeConfig = await loader.again({ settings, read });
      await service.reload.apply(next.config, next.upstreams);
      if (start.number === 1) warnOfFallbacks(next.config, service, log);
    };
    handlers[toWorker.reload] = reload;
    if (start.isFirst) for (const warning of warningsOf(config, io.env)) log.warn({}, warning);
    if (start.reloaded !== null) await reload(start.reloaded);
    else if (start.isFirst) warnOfFallbacks(config, service, log);
    announce(io, options, service, channel, start.isFirst);
    if (!stopping.signal.aborted) await once(stopping.signal, "abort");
    await service.stop(drainMs);
    const lost = usageLostError(service.usageLost());
    if (lost !== null) throw lost;
    return exitCode.done;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    channel.tell(toPrimary.refused, refusal);
    return exitCode.wrongUsage;
  } finally {
    sink.flush();
    // The channel would keep the process alive.
    process.channel?.unref();
  }
}

function openChannel(handlers: Handlers, onFailed: OnFailed): Channel {
  const send = (message: object): void => {
    if (cluster.worker?.isConnected()) cluster.worker.send(message as never, () => {});
  };
  const channel = new Channel(send, handlers, onFailed);
  process.on("message", (message) => channel.receive(message));
  return channel;
}

function toContext({ number, count, isFirst, adminToken, ops }: WorkerStart, channel: Channel): WorkerContext {
  return {
    ...{ number, count, isFirst, adminToken, ops },
    ports: async () => (await channel.askOne(toPrimary.ports)) as Awaited<ReturnType<WorkerContext["ports"]>>,
    system: async () => fromJson(SystemSchema, (await channel.askOne(toPrimary.system)) as JsonValue),
    history: async (range: HistoryRange) => (await channel.askOne(toPrimary.history, range)) as History,
  };
}

/** Answers questions of the first process, which adds up the answers of all workers. */
function serveQuestions({ parts }: Service, handlers: Record<string, (body: never) => unknown>): void {
  handlers[toWorker.metrics] = () => parts.metrics.read();
  handlers[toWorker.debugState] = () => parts.debugState();
  handlers[toWorker.readiness] = () => parts.ready();
  handlers[toWorker.figures] = () => parts.figures();
  handlers[toWorker.status] = async () => ({
    system: toJson(SystemSchema, await parts.status.read()),
    figures: parts.figures(),
  });
}

function warnOfFallbacks(config: Service["config"], { parts }: Service, log: Logger): void {
  for (const warning of fallbackWarnings(config, servedIds(parts))) log.warn({}, warning);
}

function announce(io: CliIo, options: WorkerOptions, service: Service, channel: Channel, isFirst: boolean): void {
  const text = readyText(service, { uis: commandName(io.env) });
  const ready: WorkerReady = { line: readyLine(service), text, addresses: service.addresses };
  channel.tell(toPrimary.ready, ready);
  if (isFirst && options.json !== true) channel.tell(toPrimary.print, nextStepText(service));
}

/** The message and remedy of an error that makes the start impossible; null for other errors. */
function refusalOf(error: unknown): WorkerRefusal | null {
  if (error instanceof StartError || error instanceof StateOpenError) return { message: error.message, fix: error.fix };
  if (!(error instanceof ConfigError)) return null;
  const problems = error.problems.map((problem) => formatProblem(problem, error.file));
  return { message: problems.join("; ") || errorText(error), fix: "correct the configuration" };
}
