import type { CliIo } from "../cli-io.js";
import { type LoadedConfig, loadConfig } from "../config/load-config.js";

/** Options that several commands share. */
export interface ConfigOptions {
  readonly config?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly grpcPort?: number | undefined;
  readonly opsPort?: number | undefined;
  readonly role?: string | undefined;
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
