import { stringify } from "yaml";
import * as z from "zod";
import { type CliIo, exitCode, printJson, printLine } from "../command-line/cli-io.js";
import { ConfigError, formatProblem } from "../config/problem.js";
import { configSchema } from "../config/schema.js";
import { configJsonSchema, redacted } from "../config/setting-list.js";
import { type ConfigOptions, loadForCommand, loadForStart } from "./load-for-command.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
}

/** `uis config check`: every fault of the configuration and of the secrets beside it, each with its place. */
export async function checkConfig(io: CliIo, file: string | undefined, options: Options): Promise<number> {
  try {
    const { file: read } = await loadForStart(io, { ...options, config: file ?? options.config });
    if (options.json) printJson(io, []);
    else printLine(io, read === null ? "No configuration file; the defaults are fine." : `${read} is fine.`);
    return exitCode.done;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (options.json) printJson(io, error.problems);
    else for (const problem of error.problems) printLine(io, formatProblem(problem, error.file));
    return exitCode.wrongUsage;
  }
}

/** `uis config schema`: for editors, e.g. in a first line `# yaml-language-server: $schema=…`. */
export function printSchema(io: CliIo, options: Options): void {
  const schema = configJsonSchema();
  if (options.json) printJson(io, schema);
  else printLine(io, JSON.stringify(schema, null, 2));
}

/** `uis config show`: what applies after file, environment and defaults, without the secrets that settings hold. */
export async function showConfig(io: CliIo, options: Options): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const settings = redacted(z.encode(configSchema, structuredClone(config)));
  if (options.json) printJson(io, settings);
  else io.stdout.write(stringify(settings));
}
