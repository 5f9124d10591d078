import { Command, Option } from "commander";
import { version } from "../contract/version.js";
import { addKeys, addThresholds, addUsage } from "./accounts-program.js";
import type { CliIo } from "./command-line/cli-io.js";
import {
  addGroup,
  configOption,
  dataDirOption,
  examples,
  jsonOption,
  ofService,
  onMachine,
  onServiceOrFolder,
  parsePort,
  type SetExitCode,
} from "./command-line/program-options.js";
import { addModels, addRun } from "./models-program.js";
import { addWebhooks } from "./webhooks-program.js";

/**
 * The `uis` command line. Every command loads its own code when it is called, so that a small one does not wait for the
 * whole server. What is wrong with its use is thrown as CommanderError and not written.
 */
export function createProgram(io: CliIo, setExitCode: SetExitCode): Command {
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
  addServe(program, io);
  addRun(program, io);
  addModels(program, io);
  addKeys(program, io);
  addUsage(program, io);
  addThresholds(program, io);
  addWebhooks(program, io, setExitCode);
  addAdmin(program, io);
  addBackup(program, io);
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

/** How a command stands in the list of all: without `[options]`, which nearly all have. */
function nameAndArguments(command: Command): string {
  const names = command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`));
  return [command.name(), ...names].join(" ");
}

/** `uis admin` */
function addAdmin(program: Command, io: CliIo): void {
  const admin = addGroup(program, "admin", "the administrator of a running service").addHelpText(
    "after",
    examples("uis admin link"),
  );
  ofService(
    admin
      .command("link")
      .description("make a one-time link that sets the dashboard's password and signs in; the link before is void"),
  )
    .addHelpText("after", examples("uis admin link"))
    .action(async (options) => (await import("./commands/backup.js")).adminLink(io, options));
}

/** `uis backup` and `uis restore` */
function addBackup(program: Command, io: CliIo): void {
  onServiceOrFolder(
    program
      .command("backup")
      .summary("copy the embedded state, while the service runs or not")
      .description("write a consistent copy of the embedded state, while the service runs or stands")
      .argument("<file>", "the copy; must not exist"),
  )
    .addHelpText("after", examples("uis backup /backups/uis-2026-01-31.db"))
    .action(async (file: string, options) => (await import("./commands/backup.js")).backup(io, file, options));
  onMachine(
    program
      .command("restore")
      .summary("put a copy back in place; the service must not run")
      .description("put a copy in the place of the embedded state; the service must not run")
      .argument("<file>", "a copy that uis backup wrote"),
  )
    .addHelpText("after", examples("uis restore /backups/uis-2026-01-31.db"))
    .action(async (file: string, options) => (await import("./commands/backup.js")).restore(io, file, options));
}

/** `uis config` */
function addConfig(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  const config = addGroup(program, "config", "check and show the configuration").addHelpText(
    "after",
    examples("uis config check", "uis config show"),
  );
  config
    .command("check")
    .description("find faults in the configuration")
    .argument("[file]", "configuration file, instead of --config")
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis config check", "uis config check uis.yaml --json"))
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
    .description("print the configuration as it is resolved; secrets are left out")
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText("after", examples("uis config show", "uis config show --config uis.yaml --json"))
    .action(async (options) => (await import("./commands/config.js")).showConfig(io, options));
}

/** `uis doctor` */
function addDoctor(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  onMachine(program.command("doctor").description("check this machine and the configuration"))
    .addHelpText("after", examples("uis doctor", "uis doctor --config uis.yaml --json"))
    .action(async (options) => setExitCode(await (await import("./commands/doctor.js")).doctor(io, options)));
}
