import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { stringify } from "yaml";
import * as z from "zod";
import { errorText } from "../../../lib/display-text.js";
import { type CliIo, CommandError, exitCode, print } from "../../command-line/cli-io.js";
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

/** `uis config schema`: a schema for editors, which can be named in a first line `# yaml-language-server: $schema=…`. */
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

/** The usual settings, with their defaults or as comments. Each comment is valid once it is uncommented. */
const starterConfig = `# Configuration of Unified Inference. uis config check finds errors, uis config show prints the result with all defaults,
# and a running service reads it again at SIGHUP. Completion in editors: uis config schema > uis.schema.json
# yaml-language-server: $schema=uis.schema.json

server:
  host: 127.0.0.1 # 0.0.0.0 also accepts other machines: set tls, or put a proxy with TLS in front
  port: 8080

data_dir: ./data # keys, usage, models

# Without this list a chat model and an embedding model of this machine are served.
# models:
#   - id: qwen3-0.6b
#     engine: llama
#     source: hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf
#     context_length: 4096
#     slots: 4
#     prices: { input: 50, output: 200 } # nano-dollars per token
#     defaults: { temperature: 0.7, max_tokens: 1024 }

# Other inference servers, whose models are listed and served. uis upstreams check URL prints the lines for one.
# upstreams:
#   gpu-1: { url: "http://10.0.0.5:8000/v1", kind: vllm }

# Limits of keys and accounts without limits of their own: uis limits set changes those.
# rate_limits:
#   default_key: { requests_per_minute: 600, concurrency: 8 }
#   default_account: { tokens_per_minute: 500000 }

# Shared state for several replicas. Each then needs the same UIS_MASTER_KEY.
# state:
#   redis_url: "redis://127.0.0.1:6379"

# log:
#   level: info
`;

/** `uis config init`: writes a configuration to begin with. An existing file stays as it is. */
export async function initConfig(io: CliIo, name: string | undefined, options: CommandOptions): Promise<void> {
  const file = resolve(io.cwd, name ?? "uis.yaml");
  await writeFile(file, starterConfig, { flag: "wx" }).catch((cause: unknown) => {
    const exists = cause instanceof Error && "code" in cause && cause.code === "EEXIST";
    const reason = exists ? "it exists, and is not overwritten" : errorText(cause);
    throw new CommandError(`${file} cannot be written: ${reason}`, { cause });
  });
  const next = name === undefined ? "" : ` --config ${name}`;
  print(io, options, { file }, `${file} is written. Edit it, then: uis config check${next}, uis serve${next}`);
}
