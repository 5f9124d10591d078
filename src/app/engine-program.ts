import { Argument, type Command } from "commander";
import { addGroup, type CommandSet } from "./command-line/program-options.js";
import { buildNames } from "./engines/registry.js";

/** Adds `uis engine`. */
export function addEngine(program: Command, commands: CommandSet): void {
  const summary = "builds of the embedded engine, for CPU and GPU";
  const engine = addGroup(program, "engine", { summary }, "uis engine list", "uis engine install cuda");
  const code = () => import("./commands/engine.js");
  const list = engine
    .command("list")
    .description("list the builds for this machine: installed, in use, size, and why not");
  commands.onMachine(list, async () => (await code()).listEngine, "uis engine list", "uis engine list --json");
  const install = engine
    .command("install")
    .description("fetch a build from npm's configured registry into the data folder, and verify it")
    .addArgument(new Argument("<name>", "the build").choices(buildNames));
  commands.onMachine(install, async () => (await code()).installEngine, "uis engine install vulkan");
}
