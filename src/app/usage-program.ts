import { type Command, InvalidArgumentError, Option } from "commander";
import type { CliIo } from "./cli-io.js";
import { accountOption, addGroup, examples, ofService, parseList } from "./program-options.js";

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
    .action(async (options) => (await import("./commands/thresholds.js")).addThreshold(io, options));
  ofService(
    thresholds
      .command("list")
      .description("list thresholds and how far they are")
      .addOption(accountOption("only those of this account")),
  )
    .addHelpText("after", examples("uis thresholds list", "uis thresholds list --account team-a --json"))
    .action(async (options) => (await import("./commands/thresholds.js")).listThresholds(io, options));
  ofService(thresholds.command("rm").description("delete a threshold").argument("<id>", "id of the threshold"))
    .addHelpText("after", examples("uis thresholds rm thr_abcdefghijklmnopqrstuvwx"))
    .action(async (id: string, options) => (await import("./commands/thresholds.js")).removeThreshold(io, id, options));
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
