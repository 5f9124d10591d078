import type { Command } from "commander";
import type { CliIo } from "./cli-io.js";
import type { SetExitCode } from "./program.js";
import {
  addGroup,
  configOption,
  examples,
  jsonOption,
  ofService,
  onMachine,
  onServiceOrFolder,
} from "./program-options.js";

/** `uis admin` */
export function addAdmin(program: Command, io: CliIo): void {
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
    .action(async (options) => (await import("./commands/admin.js")).adminLink(io, options));
}

/** `uis backup` and `uis restore` */
export function addBackup(program: Command, io: CliIo): void {
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
export function addConfig(program: Command, io: CliIo, setExitCode: SetExitCode): void {
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
export function addDoctor(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  onMachine(program.command("doctor").description("check this machine and the configuration"))
    .addHelpText("after", examples("uis doctor", "uis doctor --config uis.yaml --json"))
    .action(async (options) => setExitCode(await (await import("./commands/doctor.js")).doctor(io, options)));
}
