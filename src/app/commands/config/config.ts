import { stringify } from "yaml";
import * as z from "zod";
import { type CliIo, exitCode, print } from "../../command-line/cli-io.js";
import { ConfigError, formatProblem } from "../../config/problem.js";
import { configSchema } from "../../config/schema.js";
import { configJsonSchema, redacted } from "../../config/setting-list.js";
import { type CommandOptions, loadForCommand, loadForStart } from "../load-for-command.js";

/** `uis config check`: every problem of the configuration and of the secrets, each with its position. */
export async function checkConfig(io: CliIo, file: string | undefined, options: CommandOptions): Promise<number> {
  try {
    const { file: read } = await loadForStart(io, { ...options, config: file ?? options.config });
    print(io, options, [], read === null ? "No configuration file; the defaults are valid." : `${read} is valid.`);
    return exitCode.done;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    print(io, options, error.problems, ...error.problems.map((problem) => formatProblem(problem, error.file)));
    return exitCode.wrongUsage;
  }
}

/** `uis config schema`: for editors, e.g. in a first line `# yaml-language-server: $schema=…`. */
export function printSchema(io: CliIo, options: CommandOptions): void {
  const schema = configJsonSchema();
  print(io, options, schema, JSON.stringify(schema, null, 2));
}

/** `uis config show`: the result of file, environment and defaults, without secrets. */
export async function showConfig(io: CliIo, options: CommandOptions): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const settings = redacted(z.encode(configSchema, structuredClone(config)));
  print(io, options, settings, stringify(settings).replace(/\n$/, ""));
}
