import type { CliIo } from "../command-line/cli-io.js";
import { type LoadedConfig, loadConfig } from "../config/load-config.js";
import { ConfigError } from "../config/problem.js";
import { readSecrets, type Secrets } from "../config/secrets.js";

/** Options that several commands share. */
export interface ConfigOptions {
  readonly config?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly grpcPort?: number | undefined;
  readonly opsPort?: number | undefined;
  readonly role?: string | undefined;
  /** Address of the service to ask. */
  readonly url?: string | undefined;
}

/** The configuration with the command line's settings on top. */
export function loadForCommand(io: CliIo, options: ConfigOptions): Promise<LoadedConfig> {
  return loadConfig({
    env: io.env,
    cwd: io.cwd,
    file: options.config,
    flags: [
      { path: ["data_dir"], value: options.dataDir, from: "--data-dir" },
      { path: ["server", "host"], value: options.host, from: "--host" },
      { path: ["server", "port"], value: options.port, from: "--port" },
      { path: ["server", "grpc_port"], value: options.grpcPort, from: "--grpc-port" },
      { path: ["server", "ops_port"], value: options.opsPort, from: "--ops-port" },
      { path: ["server", "role"], value: options.role, from: "--role" },
    ],
  });
}

/** All that a start reads: the configuration and the secrets. Rejects with ConfigError, which names every fault of both. */
export async function loadForStart(
  io: CliIo,
  options: ConfigOptions,
): Promise<LoadedConfig & { readonly secrets: Secrets }> {
  const loaded = await orFaults(() => loadForCommand(io, options));
  const secrets = await orFaults(() => readSecrets(io.env));
  if (!(loaded instanceof ConfigError || secrets instanceof ConfigError)) return { ...loaded, secrets };
  const faults = [loaded, secrets].filter((one) => one instanceof ConfigError);
  const { file } = loaded;
  throw new ConfigError(
    faults.flatMap(({ problems }) => problems),
    file,
  );
}

async function orFaults<T>(read: () => T | Promise<T>): Promise<T | ConfigError> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}
