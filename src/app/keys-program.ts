import { type Command, InvalidArgumentError, Option } from "commander";
import type { CliIo } from "./cli-io.js";
import { accountOption, addGroup, examples, expiresOption, ofService, parseList } from "./program-options.js";

const anId = "key_abcdefghijklmnopqrstuvwx";

/** `uis keys`: API keys of a running service. */
export function addKeys(program: Command, io: CliIo): void {
  const keys = addGroup(program, "keys", "API keys of a running service").addHelpText(
    "after",
    examples("uis keys create --name ci --scope read_write", "uis keys list"),
  );
  ofService(
    keys
      .command("create")
      .description("make a key; its secret is shown once")
      .requiredOption("--name <name>", "a name for people")
      .addOption(new Option("--scope <scope>", "what it permits").choices(["read", "read_write"]).makeOptionMandatory())
      .addOption(accountOption("the account it belongs to; made by first use"))
      .option("--models <ids>", "models it may use, separated by commas; an id may end in *", parseList)
      .addOption(expiresOption())
      .option("--rpm <number>", "requests it may make in any 60 seconds", parseLimit)
      .option("--tpm <number>", "tokens it may use in any 60 seconds", parseLimit)
      .option("--concurrency <number>", "requests it may have running at the same time", parseLimit),
  )
    .addHelpText("after", examples("uis keys create --name ci --scope read_write --expires 30d --rpm 600"))
    .action(async (options) => (await import("./commands/keys.js")).createKey(io, options));
  ofService(
    keys.command("list").description("list keys, newest first").addOption(accountOption("only keys of this account")),
  )
    .addHelpText("after", examples("uis keys list", "uis keys list --account team-a --json"))
    .action(async (options) => (await import("./commands/keys.js")).listKeys(io, options));
  ofService(
    keys.command("revoke").description("revoke a key; its running streams end").argument("<id>", "id of the key"),
  )
    .addHelpText("after", examples(`uis keys revoke ${anId}`))
    .action(async (id: string, options) => (await import("./commands/keys.js")).revokeKey(io, id, options));
  ofService(
    keys
      .command("rotate")
      .description("make a successor of a key; the old one goes on working for a while")
      .argument("<id>", "id of the key")
      .option("--overlap <time>", "how long the old key still works, 0s to 7d; default: 24h")
      .addOption(expiresOption()),
  )
    .addHelpText("after", examples(`uis keys rotate ${anId} --overlap 24h`))
    .action(async (id: string, options) => (await import("./commands/keys.js")).rotateKey(io, id, options));
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,11}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number of 1 or more.");
}
