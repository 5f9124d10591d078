import cluster from "node:cluster";
import { once } from "node:events";
import type { Logger } from "../../domain/call/ports.js";
import { createLogger } from "../../telemetry/logger.js";
import { type CliIo, CommandError, exitCode } from "../command-line/cli-io.js";
import { lockDataFolder, openPages } from "../compose/first-process.js";
import type { SettingValue } from "../config/environment.js";
import { toServiceLimits } from "../config/limits-settings.js";
import type { Config } from "../config/schema.js";
import type { Secrets } from "../config/secrets.js";
import { announce, checkDataFiles, newAdminToken, openDataDir } from "../process/data-folder.js";
import { drainDelayMsOf, endGraceMs, StartError } from "../process/lifecycle.js";
import { loadOpsToken } from "../process/listeners.js";
import {
  type ConfigLoader,
  drainMsOf,
  exitOnUnhandledErrors,
  onReloadSignal,
  onStopSignal,
  type ServeConfig,
} from "../serve/serve-process.js";
import { AllWorkersStatus } from "./all-workers-status.js";
import { LogStream } from "./log-stream.js";
import { toPrimary, toWorker, type WorkerStart } from "./messages.js";
import { reservePorts } from "./reserved-ports.js";
import { WorkerPool } from "./worker-pool.js";
import { WorkerProcess } from "./worker-process.js";

interface FirstProcessInput {
  /** Whether the only text on stdout is the line of `--json`. */
  readonly json: boolean;
  /** Settings of `--upstream`. */
  readonly settings: readonly SettingValue[];
  readonly start: Awaited<ReturnType<ConfigLoader["start"]>>;
  readonly loader: ConfigLoader;
  readonly workers: number;
}

/** Time after the longest drain of a worker until it is killed: in it a worker closes its store and connections. */
const closeMs = 15_000;
/** Longest wait for a reload of a worker, which may read files of upstreams and certificates. */
const reloadMs = 30_000;

/**
 * The first of several processes of a service. It answers no request: it starts the workers and replaces those that end, hands
 * out connections, answers operators with the sums of all workers, and passes signals on. Resolves when all have stopped.
 */
export async function runFirstProcess(io: CliIo, input: FirstProcessInput): Promise<void> {
  const { config, secrets } = input.start;
  checkVolatile(config, secrets, input.workers);
  const stream = new LogStream(io, config.log);
  const log = createLogger({ level: config.log.level, sink: stream });
  const exit = (): never => {
    pool?.kill();
    stream.flush();
    process.exit(exitCode.failed);
  };
  let pool: WorkerPool | null = null;
  const closers: (() => Promise<void> | void)[] = [];
  exitOnUnhandledErrors(log, exit);
  const { stopping, stop } = onStopSignal(log, exit);
  try {
    await openDataDir(config.data_dir);
    await checkDataFiles(config.data_dir);
    closers.push(lockDataFolder(config.data_dir));
    const service = await openService(input, { stream, log, fail: (error) => stopping.abort(error) }, io, closers);
    pool = service.pool;
    onReloadSignal(io, stop, service.reload, log);
    const { signal } = stopping;
    const stopped = signal.aborted ? Promise.resolve() : once(signal, "abort");
    const started = service.start();
    // After a stop during the start nothing awaits this promise.
    started.catch(() => {});
    await Promise.race([started, stopped]);
    await stopped;
    const drainMs = drainMsOf(signal.reason, io);
    const areWell = await service.stop(drainMs);
    if (signal.reason instanceof Error) throw signal.reason;
    if (!areWell) throw new CommandError("a worker did not end regularly; the log has the cause");
  } catch (error) {
    pool?.kill();
    throw error;
  } finally {
    for (const close of closers.reverse()) await close();
    stream.flush();
  }
}

/** Throws for state in memory without a configured API key: workers without a shared store do not share created keys. */
function checkVolatile({ state }: Config, { bootstrapApiKey }: Secrets, workers: number): void {
  if (state.durability !== "none" || bootstrapApiKey !== null) return;
  throw new StartError(
    `server.workers is ${workers} and state.durability is none: each worker would have keys of its own`,
    "set UIS_BOOTSTRAP_API_KEY, or share the state through Redis (REDIS_URL) instead of state.durability",
  );
}

interface Tools {
  readonly stream: LogStream;
  readonly log: Logger;
  readonly fail: (error: Error) => void;
}

async function openService(
  { json, settings, start, loader, workers }: FirstProcessInput,
  { stream, log, fail }: Tools,
  io: CliIo,
  closers: (() => Promise<void> | void)[],
) {
  const { config } = start;
  const { server } = config;
  // Workers get connections in turn. With a shared handle the kernel would give most connections to one worker.
  cluster.schedulingPolicy = cluster.SCHED_RR;
  cluster.setupPrimary({ stdio: ["ignore", "ignore", "pipe", "ipc"] });
  let phase: "starting" | "ready" | "draining" = "starting";
  let reloaded: ServeConfig["read"] | null = null;
  const adminToken = newAdminToken();
  const ports = await reservePorts(server);
  closers.push(async () => void (await ports.release()));

  const fork = (number: number, isFirst: boolean): WorkerProcess => {
    const onLog = stream.reader();
    const worker = new WorkerProcess({
      number,
      onLog,
      onFailed: (err, name) => log.error({ err, worker: number, name }, "a message of a worker was not handled"),
      hasOther: (): boolean => pool.ready.some((other) => other.number !== number),
      handlers: {
        ...status.handlers(),
        [toPrimary.start]: (): WorkerStart => ({
          ...{ number, isFirst, reloaded, settings, adminToken },
          count: workers,
          source: start.read,
          ops: pages.address,
        }),
        [toPrimary.ports]: () => ports.release(),
        [toPrimary.print]: (text: string) => void io.stdout.write(text),
      },
    });
    return worker;
  };
  const pool = new WorkerPool({
    count: workers,
    fork,
    onEnded: ({ pid }) => status.ended(pid),
    onFailed: fail,
    log,
  });
  const status = new AllWorkersStatus({ pool, count: workers, phase: () => phase });
  closers.push(() => status.close());
  const pages = await openPages({ ...status.pages(), log }, server);
  closers.push(() => pages.listener.close());

  return {
    pool,
    /** Resolves when all workers are ready, or when the service was stopped during the start. */
    async start() {
      const ready = await pool.start();
      if (ready === null) return;
      for (const remove of await announce(config.data_dir, adminToken, ready.addresses)) closers.push(remove);
      phase = "ready";
      io.stdout.write(json ? `${JSON.stringify(ready.line)}\n` : ready.text);
    },
    async reload() {
      const next = await loader.again({ settings });
      const token = await loadOpsToken(next.config.server);
      const answers = await Promise.all(
        pool.ready.map(({ number, channel }) =>
          channel.ask(toWorker.reload, next.read, reloadMs).then(
            () => null,
            (error: Error) => ({ worker: number, reason: error.message }),
          ),
        ),
      );
      const failed = answers.filter((answer) => answer !== null);
      if (failed.length > 0) {
        log.error({ failed }, "the configuration was not reloaded by all workers");
        return;
      }
      pages.listener.setToken(token);
      reloaded = next.read;
      log.info({ workers: answers.length }, "the configuration was reloaded by all workers");
    },
    /** Stops all workers. Resolves with whether all ended regularly. */
    async stop(drainMs: number | null): Promise<boolean> {
      phase = "draining";
      const limit = toServiceLimits(config.limits).drainMs + drainDelayMsOf(server) + endGraceMs + closeMs;
      return await pool.stop(drainMs, limit);
    },
  };
}
