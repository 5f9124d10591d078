import { type Command, Option } from "commander";
import { upstreamKinds } from "../domain/engine/upstream.js";
import { deploymentBounds } from "../domain/engine/upstream-forms.js";
import {
  addGroup,
  type CommandSet,
  jsonOption,
  notEmpty,
  parseList,
  wholeNumber,
} from "./command-line/program-options.js";

const addition = "uis upstreams add gpu-1 --url http://10.0.0.5:8000/v1";
const anId = "gpu-1/meta-llama/Llama-3.1-8B-Instruct";

/** `uis upstreams`: the upstreams of a running service, and a check of any server. */
export function addUpstreams(program: Command, commands: CommandSet): void {
  const summary = "upstream servers: list, check, add, remove, drain";
  const examples = ["uis upstreams list", "uis upstreams check http://127.0.0.1:11434/v1", addition];
  const upstreams = addGroup(program, "upstreams", { summary }, ...examples);
  addList(upstreams, commands);
  addCheck(upstreams, commands);
  addStored(upstreams, commands);
}

function addList(upstreams: Command, commands: CommandSet): void {
  const list = upstreams
    .command("list")
    .description("list the upstreams of the running service with their state, else those of the configuration");
  commands.onService(
    list,
    async () => (await import("./commands/upstreams/upstreams.js")).listUpstreams,
    "uis upstreams list",
    "uis upstreams list --json",
  );
}

function addCheck(upstreams: Command, commands: CommandSet): void {
  const check = upstreams
    .command("check")
    .description("show what a server is and which models it has, and the configuration that adds it")
    .argument("<url>", "base URL of its API, usually with /v1 at its end")
    .option("--key-file <file>", "file with the API key for the server")
    .addOption(kindOption())
    .addOption(jsonOption());
  commands.plain(
    check,
    async () => (await import("./commands/upstreams/upstreams.js")).checkUpstreamAt,
    "uis upstreams check http://127.0.0.1:11434/v1",
    "uis upstreams check https://api.openai.com/v1 --key-file openai.key --json",
  );
}

function addStored(upstreams: Command, commands: CommandSet): void {
  const code = () => import("./commands/upstreams/stored-upstreams.js");
  const { weight, priority, slots } = deploymentBounds;
  const add = upstreams
    .command("add")
    .description("add a server to the running service; it is stored, and used on every replica")
    .argument("<name>", "name of the upstream", notEmpty)
    .requiredOption("--url <url>", "base URL of its API, usually with /v1 at its end")
    .addOption(kindOption())
    .option("--key-file <file>", "file with the API key for the server; - reads it from stdin")
    .option("--api-version <version>", "kind azure: version for the paths of deployments")
    .option(
      "--models <names>",
      "offer only these of its models, comma-separated; default: all that it lists",
      parseList,
    )
    .option(
      "--native <apis>",
      "APIs that the server has, comma-separated: responses, messages; it gets their requests unchanged",
      parseList,
    )
    .option("--weight <number>", "share of requests; default: 1", wholeNumber(weight.min, weight.max))
    .option("--priority <number>", "the lowest is used first; default: 0", wholeNumber(priority.min, priority.max))
    .option("--slots <number>", "concurrent requests of a model; default: 256", wholeNumber(slots.min, slots.max));
  const withKey = "uis upstreams add openai --url https://api.openai.com/v1 --key-file - --models gpt-5-mini < key";
  commands.onService(add, async () => (await code()).addUpstream, addition, withKey);
  const remove = upstreams.command("rm").argument("<name>", "name of a stored upstream");
  remove.description("delete a stored upstream; its running requests end normally");
  commands.onService(remove, async () => (await code()).removeUpstream, "uis upstreams rm gpu-1");
  const drain = upstreams
    .command("drain")
    .description("give a deployment no new requests, on every replica; running ones end normally")
    .argument("<deployment>", "id of the deployment")
    .option("--undo", "use it again");
  const examples = [`uis upstreams drain ${anId}`, `uis upstreams drain ${anId} --undo`];
  commands.onService(drain, async () => (await code()).drainDeployment, ...examples);
}

function kindOption(): Option {
  return new Option("--kind <kind>", "kind of the server; default: detected").choices(upstreamKinds);
}
