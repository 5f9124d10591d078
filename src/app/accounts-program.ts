import { type Command, InvalidArgumentError, Option } from "commander";
import type { CliIo } from "./command-line/cli-io.js";
import {
  accountOption,
  addGroup,
  examples,
  expiresOption,
  ofService,
  parseList,
} from "./command-line/program-options.js";

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

/** `uis usage` */
export function addUsage(program: Command, io: CliIo): void {
  ofService(
    program
      .command("usage")
      .description("what was used, by UTC days")
      .option("--from <day>", "first day, e.g. 2026-01-31; default: six days ago")
      .option("--to <day>", "last day; default: today")
      .option("--by <parts>", "what sums are kept apart by: day, model, key; default: day,model", parseList)
      .addOption(accountOption("the account; default: the credential's own")),
    "UIS_ADMIN_TOKEN",
    "UIS_API_KEY",
  )
    .addHelpText("after", examples("uis usage", "uis usage --from 2026-01-01 --by model,key --json"))
    .action(async (options) => (await import("./commands/usage.js")).usage(io, options));
}

/** `uis thresholds`: what happens when usage is much. */
export function addThresholds(program: Command, io: CliIo): void {
  const thresholds = addGroup(program, "thresholds", "thresholds of usage, and budgets").addHelpText(
    "after",
    examples("uis thresholds add --metric tokens --period month --limit 5000000", "uis thresholds list"),
  );
  ofService(
    thresholds
      .command("add")
      .description("be told when usage reaches shares of a limit, or refuse what goes beyond it")
      .addOption(
        oneOf(
          ["tokens", "requests", "cost"],
          "METRIC_",
          new Option("--metric <metric>", "what is counted"),
        ).makeOptionMandatory(),
      )
      .addOption(
        oneOf(
          ["day", "month"],
          "PERIOD_",
          new Option("--period <period>", "from when on, by UTC"),
        ).makeOptionMandatory(),
      )
      .requiredOption("--limit <number>", "tokens, requests or nano-dollars", parseInteger)
      .option("--percents <list>", "shares that are told; default: 50,80,100", parsePercents)
      .addOption(oneOf(["notify", "refuse"], "ACTION_", new Option("--action <action>", "refuse makes it a budget")))
      .addOption(accountOption("whose usage; default: default"))
      .option("--key <id>", "one key's usage alone"),
  )
    .addHelpText(
      "after",
      examples(
        "uis thresholds add --metric tokens --period month --limit 5000000",
        "uis thresholds add --metric cost --period day --limit 2000000000 --action refuse",
      ),
    )
    .action(async (options) => (await import("./commands/usage.js")).addThreshold(io, options));
  ofService(
    thresholds
      .command("list")
      .description("list thresholds and how far they are")
      .addOption(accountOption("only those of this account")),
  )
    .addHelpText("after", examples("uis thresholds list", "uis thresholds list --account team-a --json"))
    .action(async (options) => (await import("./commands/usage.js")).listThresholds(io, options));
  ofService(thresholds.command("rm").description("delete a threshold").argument("<id>", "id of the threshold"))
    .addHelpText("after", examples("uis thresholds rm thr_abcdefghijklmnopqrstuvwx"))
    .action(async (id: string, options) => (await import("./commands/usage.js")).removeThreshold(io, id, options));
}

/** An option that takes one of the names, also as threshold objects spell it: `tokens` and `METRIC_TOKENS`. */
function oneOf(names: readonly string[], prefix: string, option: Option): Option {
  return option.choices(names).argParser((text: string) => {
    const name = text.startsWith(prefix) ? text.slice(prefix.length).toLowerCase() : text;
    if (names.includes(name)) return name;
    throw new InvalidArgumentError(`Allowed choices are ${names.join(", ")}.`);
  });
}

function parseInteger(text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("It must be a whole number.");
}

function parsePercents(text: string): number[] {
  const percents = text.split(",").map((item) => Number(item.trim().replace(/%$/, "")));
  if (percents.every((percent) => Number.isInteger(percent))) return percents;
  throw new InvalidArgumentError("It must be whole numbers, separated by commas: 50,80,100.");
}
