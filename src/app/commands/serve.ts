import cluster from "node:cluster";
import { resolve } from "node:path";
import { type CliIo, UsageError } from "../command-line/cli-io.js";
import type { LoadedConfig } from "../config/load-config.js";
import { workerCount } from "../config/process-settings.js";
import type { Config } from "../config/schema.js";
import { readUpstreams } from "../config/upstreams.js";
import type { ConfigLoader } from "../serve/serve-process.js";
import { type CommandOptions, loadForCommand, loadForStart } from "./load-for-command.js";

interface ServeOptions extends CommandOptions {
  /** Source of a chat model. */
  readonly model?: string;
  /** Server of an upstream in addition to those of the configuration. */
  readonly upstream?: string;
  /** Starts with an empty database if the former one is lost. */
  readonly newStore?: boolean;
}

/** `uis serve`: resolves when the service, or this worker of it, has stopped; with the exit code of a worker. */
export async function serve(io: CliIo, given: ServeOptions): Promise<number | undefined> {
  // The code for a worker, a first process or an only process is loaded on demand: a first process needs little of it.
  if (cluster.isWorker)
    return await (await import("../workers/worker.js")).runWorker(io, given, createLoader(io, given));
  const settings = given.upstream === undefined ? [] : await upstreamSettings(io, given.upstream);
  const options = { ...given, settings };
  const loader = createLoader(io, options);
  const start = await loader.start();
  const { config } = start;
  if (options.model !== undefined && config.models !== null) {
    throw new UsageError("--model replaces the default chat model, but the configuration has its own `models`");
  }
  const workers = workerCount(config.server.workers);
  if (workers === 1) {
    const { runOnlyProcess } = await import("../serve/only-process.js");
    await runOnlyProcess(io, options, start, loader);
    return undefined;
  }
  if (options.model !== undefined) {
    throw new UsageError(
      "--model needs the embedded engine, which several workers do not have: set server.workers to 1",
    );
  }
  const { runFirstProcess } = await import("../workers/first-process.js");
  await runFirstProcess(io, { json: options.json === true, settings, start, loader, workers });
  return undefined;
}

async function upstreamSettings(io: CliIo, server: string) {
  const { addedUpstream } = await import("./added-upstream.js");
  return await addedUpstream(io.env, server);
}

function createLoader(io: CliIo, options: ServeOptions): ConfigLoader {
  const inFolder = (config: Config): Config => ({
    ...config,
    data_dir: resolve(io.cwd, config.data_dir),
    spill_dir: config.spill_dir === null ? null : resolve(io.cwd, config.spill_dir),
  });
  const located = ({ config, file, text }: LoadedConfig) => ({ config: inFolder(config), read: { file, text } });
  return {
    async start(before) {
      const loaded = await loadForStart(io, { ...options, ...before });
      return { ...located(loaded), upstreams: loaded.upstreams, secrets: loaded.secrets };
    },
    async again(before) {
      const loaded = await loadForCommand(io, { ...options, ...before });
      return { ...located(loaded), upstreams: readUpstreams(loaded, io) };
    },
  };
}
