import { type Command, InvalidArgumentError, Option } from "commander";
import { parseSetting, samplingSettings } from "./chat/sampling.js";
import type { CommandSet } from "./command-line/program-options.js";

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

/** `--top-p <number>` for the setting `top_p`. */
function samplingOption(setting: (typeof samplingSettings)[number]): Option {
  const option = new Option(`--${setting.name.replaceAll("_", "-")} <number>`, setting.meaning);
  return option.argParser((text: string) => {
    const value = parseSetting(setting, text);
    if (typeof value === "number") return value;
    throw new InvalidArgumentError(`It must be between ${setting.min} and ${setting.max}.`);
  });
}
