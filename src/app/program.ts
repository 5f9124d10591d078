import { Command, Option } from "commander";
import { version } from "../contract/version.js";
import type { CliIo } from "./cli-io.js";
import { addKeys } from "./keys-program.js";
import { addModels, addRun } from "./models-program.js";
import { addAdmin, addBackup, addConfig, addDoctor } from "./operator-program.js";
import { configOption, dataDirOption, examples, jsonOption, parsePort } from "./program-options.js";
import { addThresholds, addUsage } from "./usage-program.js";
import { addWebhooks } from "./webhooks-program.js";

/** Tells how a command ended; commands that do not call it have done what was asked. */
export type SetExitCode = (code: number) => void;

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
