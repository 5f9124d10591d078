import { Argument, Command, Option } from "commander";
import { version } from "../contract/version.js";
import { addKeys, addLimits, addLogs, addThresholds, addUsage } from "./accounts-program.js";
import type { CliIo } from "./command-line/cli-io.js";
import {
  addGroup,
  CommandSet,
  configOption,
  dataDirOption,
  jsonOption,
  parsePort,
} from "./command-line/program-options.js";
import { addEngine, addModels, addPs, addRun } from "./models-program.js";
import { connectionsWithin, openFilesLimit } from "./process/open-files.js";
import { addUpstreams } from "./upstreams-program.js";
import { addWebhooks } from "./webhooks-program.js";

/**
 * The `uis` command line. Every command loads its own code when it is called, so that a small command does not load
 * the code of the server. Wrong use is thrown as CommanderError and not written. `setExitCode` is called unless the code is 0.
 */
export function createProgram(io: CliIo, setExitCode: (code: number) => void): Command {
  const commands = new CommandSet(io, setExitCode);
  const program = new Command("uis")
    .description("Unified Inference: a self-hosted, OpenAI-compatible inference service.")
    .version(version, "-V, --version")
    .helpCommand(false)
    .exitOverride()
    .configureHelp({ subcommandTerm: nameAndArguments })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: () => {},
    })
    .addHelpText("after", "\nOptions and examples of a command: uis keys create --help");
  addServe(program, commands);
  addRun(program, commands);
  addPs(program, commands);
  addModels(program, commands);
  addEngine(program, commands);
  addUpstreams(program, commands);
  addKeys(program, commands);
  addLimits(program, commands);
  addUsage(program, commands);
  addLogs(program, commands);
  addThresholds(program, commands);
  addWebhooks(program, commands);
  addAdmin(program, commands);
  addBackup(program, commands);
  addState(program, commands);
  addConfig(program, commands);
  addCompletion(program, commands);
  const doctor = program.command("doctor").description("check this machine and the configuration");
  commands.onServiceOrFolder(
    doctor,
    async () => (await import("./commands/doctor.js")).doctor,
    "uis doctor",
    "uis doctor --config uis.yaml --json",
  );
  return program;
}

/** Name and arguments of a command in the help. `[options]` is left out, because nearly all commands have options. */
function nameAndArguments(command: Command): string {
  const names = command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`));
  return [command.name(), ...names].join(" ");
}

function addServe(program: Command, commands: CommandSet): void {
  const serve = program
    .command("serve")
    .description("start the service")
    .addOption(configOption())
    .option("--port <number>", "HTTP port; 0 picks a free one", parsePort)
    .option("--grpc-port <number>", "gRPC port; 0 picks a free one", parsePort)
    .option("--ops-port <number>", "port of health, metrics and state for operators; 0 picks a free one", parsePort)
    .option("--host <address>", "address of the HTTP and gRPC listeners")
    .addOption(dataDirOption())
    .addOption(new Option("--role <role>", "role of this process").choices(["all", "core", "gateway"]))
    .option("--model <source>", "chat model instead of the default one: hf:…, https://…, pypi:… or file:…")
    .option("--upstream <server>", "also serve the models of openai (OPENAI_API_KEY), ollama, or the server at a URL")
    .option("--new-store", "start with an empty database if the former one is lost; its files are moved aside")
    .addOption(jsonOption("print exactly one line of JSON on stdout when the service is ready"));
  commands.plain(
    serve,
    async () => {
      // Checked before the modules of the service are read, which opens hundreds of files at the same time.
      connectionsWithin(openFilesLimit());
      return (await import("./commands/serve.js")).serve;
    },
    "uis serve",
    "uis serve --config uis.yaml --port 8000",
    "uis serve --upstream openai",
    "uis serve --json",
  );
}

function addAdmin(program: Command, commands: CommandSet): void {
  const summary = "the administrator of a running service";
  const link = addGroup(program, "admin", { summary }, "uis admin link").command("link");
  link.description("create a one-time link that sets the dashboard's password and signs in; revokes the previous link");
  commands.onService(link, async () => (await import("./commands/backup.js")).adminLink, "uis admin link");
}

function addBackup(program: Command, commands: CommandSet): void {
  const backup = program
    .command("backup")
    .summary("copy the embedded state, of a running or stopped service")
    .description("write a consistent copy of the embedded state, of a running or stopped service")
    .argument("<file>", "file to create; it must not exist");
  commands.onServiceOrFolder(
    backup,
    async () => (await import("./commands/backup.js")).backup,
    "uis backup /backups/uis-2026-01-31.db",
  );
  const restore = program
    .command("restore")
    .summary("replace the state by a copy; the service must be stopped")
    .description("replace the embedded state by a copy; the service must be stopped")
    .argument("<file>", "a copy written by uis backup");
  commands.onMachine(
    restore,
    async () => (await import("./commands/backup.js")).restore,
    "uis restore /backups/uis-2026-01-31.db",
  );
}

function addState(program: Command, commands: CommandSet): void {
  const summary = "move the embedded state to Redis, or repair it";
  const state = addGroup(program, "state", { summary }, "uis state copy --to redis://redis:6379");
  const copy = state
    .command("copy")
    .summary("copy the embedded state to Redis, of a running or stopped service")
    .description(
      "copy the embedded state to Redis, of a running or stopped service; a further run copies all records again, " +
        "and deletes those that the old state no longer has",
    )
    .requiredOption("--to <redis-url>", "an empty Redis, or one with an earlier copy that no service has used")
    .option("--check", "only compare; exit code 1 if something differs");
  commands.onServiceOrFolder(
    copy,
    async () => (await import("./commands/state/copy-state.js")).copyState,
    "uis state copy --to redis://redis:6379",
    "uis state copy --to redis://redis:6379 --check",
  );
  const repair = state
    .command("repair-time")
    .summary("correct times that are ahead of the clock; the service must be stopped")
    .description(
      "move stored times that are ahead of this machine's clock back to the present, after the clock was wrong; the service " +
        "must be stopped",
    );
  commands.onMachine(repair, async () => (await import("./commands/backup.js")).repairTime, "uis state repair-time");
}

function addCompletion(program: Command, commands: CommandSet): void {
  const completion = program
    .command("completion")
    .summary("completion of commands and options for a shell")
    .description("print a script that completes commands and options")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addOption(jsonOption());
  commands.plain(
    completion,
    async () => {
      const { printCompletion } = await import("./command-line/completion.js");
      return printCompletion(program);
    },
    "uis completion bash > ~/.local/share/bash-completion/completions/uis",
    "uis completion zsh > ~/.zfunc/_uis",
    "uis completion fish > ~/.config/fish/completions/uis.fish",
  );
}

function addConfig(program: Command, commands: CommandSet): void {
  const summary = "create, check, show and import configurations";
  const config = addGroup(program, "config", { summary }, "uis config check", "uis config show");
  const code = () => import("./commands/config/config.js");
  const init = config
    .command("init")
    .description("write a configuration with the usual settings to begin with")
    .argument("[file]", "file to create; default: uis.yaml")
    .addOption(jsonOption());
  commands.plain(init, async () => (await code()).initConfig, "uis config init");
  const check = config
    .command("check")
    .description("list the errors of the configuration")
    .argument("[file]", "configuration file, instead of --config")
    .addOption(configOption())
    .addOption(jsonOption());
  commands.plain(check, async () => (await code()).checkConfig, "uis config check", "uis config check uis.yaml --json");
  const schema = config.command("schema").description("print the JSON Schema of the configuration file");
  commands.plain(
    schema.addOption(jsonOption()),
    async () => (await code()).printSchema,
    "uis config schema > uis.schema.json",
  );
  const show = config
    .command("show")
    .description("print the resolved configuration without secrets")
    .addOption(configOption())
    .addOption(jsonOption());
  commands.plain(
    show,
    async () => (await code()).showConfig,
    "uis config show",
    "uis config show --config uis.yaml --json",
  );
  const importing = config
    .command("import")
    .description("print the configuration of another proxy as uis.yaml")
    .addArgument(new Argument("<source>", "the proxy").choices(["litellm"]))
    .argument("<file>", "its configuration file")
    .addOption(jsonOption());
  commands.plain(
    importing,
    async () => (await import("./commands/config/import-config.js")).importConfig,
    "uis config import litellm config.yaml > uis.yaml",
  );
}
