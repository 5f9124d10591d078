import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import type { CliIo } from "../command-line/cli-io.js";
import type { SettingValue } from "../config/environment.js";
import { type ConfigFile, type LoadedConfig, loadConfig } from "../config/load-config.js";
import { ConfigError } from "../config/problem.js";
import { readSecrets, type Secrets } from "../config/secrets.js";
import { readUpstreams } from "../config/upstreams.js";

/** Options that several commands share. */
export interface CommandOptions {
  readonly json?: boolean;
  readonly config?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly grpcPort?: number | undefined;
  readonly opsPort?: number | undefined;
  readonly role?: string | undefined;
  /** Further settings of the command line. */
  readonly settings?: readonly SettingValue[];
  /** The configuration file, if it was read before. */
  readonly read?: ConfigFile;
  /** Address of the running service. */
  readonly url?: string | undefined;
}

/** Loads the configuration; settings of the command line take precedence. */
export function loadForCommand(io: CliIo, options: CommandOptions): Promise<LoadedConfig> {
  return loadConfig({
    env: io.env,
    cwd: io.cwd,
    file: options.config,
    read: options.read,
    flags: [
      { path: ["data_dir"], value: options.dataDir, from: "--data-dir" },
      { path: ["server", "host"], value: options.host, from: "--host" },
      { path: ["server", "port"], value: options.port, from: "--port" },
      { path: ["server", "grpc_port"], value: options.grpcPort, from: "--grpc-port" },
      { path: ["server", "ops_port"], value: options.opsPort, from: "--ops-port" },
      { path: ["server", "role"], value: options.role, from: "--role" },
      ...(options.settings ?? []),
    ],
  });
}

/** Everything that a start needs to know about its configuration. */
export interface StartConfig extends LoadedConfig {
  readonly secrets: Secrets;
  readonly upstreams: readonly UpstreamDefinition[];
}

/** Loads the configuration, the upstreams' files and the secrets. Rejects with a ConfigError that has all problems. */
export async function loadForStart(io: CliIo, options: CommandOptions): Promise<StartConfig> {
  const loaded = await valueOrConfigError(() => loadForCommand(io, options));
  const upstreams = loaded instanceof ConfigError ? loaded : await valueOrConfigError(() => readUpstreams(loaded, io));
  const secrets = await valueOrConfigError(() => readSecrets(io.env));
  if (!(loaded instanceof ConfigError || upstreams instanceof ConfigError || secrets instanceof ConfigError)) {
    return { ...loaded, secrets, upstreams };
  }
  const errors = [upstreams, secrets].filter((one) => one instanceof ConfigError);
  const problems = errors.flatMap((error) => error.problems);
  throw new ConfigError(problems, loaded.file);
}

async function valueOrConfigError<T>(read: () => T | Promise<T>): Promise<T | ConfigError> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}
