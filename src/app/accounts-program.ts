import { type Command, InvalidArgumentError, Option } from "commander";
import {
  accountOption,
  addGroup,
  type CommandSet,
  expiresOption,
  notEmpty,
  parseList,
  wholeNumber,
} from "./command-line/program-options.js";

const anId = "key_abcdefghijklmnopqrstuvwx";
const parseLimit = wholeNumber(1, 999_999_999_999);

/** `uis keys`: API keys of a running service. */
export function addKeys(program: Command, commands: CommandSet): void {
  const creation = "uis keys create --name ci --scope read_write";
  const keys = addGroup(program, "keys", { summary: "API keys of a running service" }, creation, "uis keys list");
  const code = () => import("./commands/keys.js");
  const create = keys
    .command("create")
    .description("create a key; its secret is shown once")
    .requiredOption("--name <name>", "name of the key")
    .addOption(new Option("--scope <scope>", "permissions").choices(["read", "read_write"]).makeOptionMandatory())
    .addOption(accountOption("account of the key; created automatically"))
    .option("--models <ids>", "allowed models, comma-separated; an id may end in *", parseList)
    .addOption(expiresOption())
    .addOption(priorityOption())
    .option("--rpm <number>", "maximum requests in any 60 seconds", parseLimit)
    .option("--tpm <number>", "maximum tokens in any 60 seconds", parseLimit)
    .option("--concurrency <number>", "maximum concurrent requests", parseLimit);
  commands.onService(create, async () => (await code()).createKey, `${creation} --expires 30d --rpm 600`);
  const list = keys.command("list").description("list keys, newest first");
  list.addOption(accountOption("only keys of this account"));
  commands.onService(
    list,
    async () => (await code()).listKeys,
    "uis keys list",
    "uis keys list --account team-a --json",
  );
  const update = keys
    .command("update")
    .description("change a key; only the given options change")
    .argument("<id>", "id of the key")
    .option("--name <name>", "new name", notEmpty)
    .option("--models <ids>", "allowed models, comma-separated; an id may end in *", parseList)
    .option("--all-models", "allow all models")
    .option("--expires <time>", "30d, 12h, 90s, a date or never")
    .addOption(priorityOption());
  const change = `uis keys update ${anId} --models "qwen3-*"`;
  commands.onService(addLimitOptions(update), async () => (await code()).updateKey, change, `${change} --rpm none`);
  const revoke = keys.command("revoke").argument("<id>", "id of the key");
  revoke.description("revoke a key; its running streams are aborted");
  commands.onService(revoke, async () => (await code()).revokeKey, `uis keys revoke ${anId}`);
  const rotate = keys
    .command("rotate")
    .description("create a successor of a key; the old one remains valid for the overlap")
    .argument("<id>", "id of the key")
    .option("--overlap <time>", "remaining validity of the old key, 0s to 7d; default: 24h")
    .addOption(expiresOption());
  commands.onService(rotate, async () => (await code()).rotateKey, `uis keys rotate ${anId} --overlap 24h`);
}

/** `uis limits`: rate limits of a running service. */
export function addLimits(program: Command, commands: CommandSet): void {
  const change = "uis limits set --account team-a --rpm 600 --tpm 200000";
  const summary = "rate limits of accounts, keys and models";
  const limits = addGroup(program, "limits", { summary }, change, "uis limits show --account team-a");
  const code = () => import("./commands/limits.js");
  const show = limits
    .command("show")
    .description("show the limits of an account, key or model, and their current use")
    .addOption(accountOption("account; with --model the account of the use; default: default"))
    .option("--key <id>", "id of a key", notEmpty)
    .option("--model <id>", "id of a model", notEmpty);
  const ofModel = "uis limits show --model qwen3-0.6b --json";
  commands.onService(show, async () => (await code()).showLimits, "uis limits show --account team-a", ofModel);
  const set = limits
    .command("set")
    .description("set limits of an account, key or model; other limits stay unchanged")
    .addOption(accountOption("account"))
    .option("--key <id>", "id of a key", notEmpty)
    .option("--model <id>", "id of a model; the limits hold for each account", notEmpty);
  const removal = "uis limits set --model qwen3-0.6b --concurrency none";
  commands.onService(addLimitOptions(set), async () => (await code()).setLimits, change, removal);
}

function priorityOption(): Option {
  const option = new Option("--priority <priority>", "order of its requests while requests wait for a slot");
  return option.choices(["interactive", "default", "batch"]);
}

function addLimitOptions(command: Command): Command {
  const orNone = (text: string) => (text === "none" ? text : parseLimit(text));
  return command
    .option("--rpm <number>", "maximum requests in any 60 seconds, or none", orNone)
    .option("--tpm <number>", "maximum tokens in any 60 seconds, or none", orNone)
    .option("--concurrency <number>", "maximum concurrent requests, or none", orNone);
}

/** `uis usage` */
export function addUsage(program: Command, commands: CommandSet): void {
  const usage = program
    .command("usage")
    .description("usage by UTC days")
    .option("--from <day>", "first day, e.g. 2026-01-31; default: six days ago")
    .option("--to <day>", "last day; default: today")
    .option("--by <parts>", "group by day, model, key, operation; default: day,model", parseList)
    .addOption(accountOption("account; default: that of the credential"));
  commands.withCredential(
    usage,
    "UIS_ADMIN_TOKEN,\nelse admin.token in the data folder, else UIS_API_KEY",
    async () => (await import("./commands/usage.js")).usage,
    "uis usage",
    "uis usage --from 2026-01-01 --by model,key --json",
  );
}

/** `uis logs` */
export function addLogs(program: Command, commands: CommandSet): void {
  const logs = program
    .command("logs")
    .description("the last requests and their results, or one of them")
    .argument("[id]", "id of a request; shows everything that is stored about it")
    .option("-f, --follow", "also show new requests when they end")
    .option("--limit <number>", "maximum number of requests of the past", wholeNumber(1, 1_000), 20)
    .option("--model <id>", "only requests for this model")
    .option("--key <id>", "only requests with this API key")
    .addOption(accountOption("only requests of this account"))
    .option("--code <code>", "ok, an error's code such as upstream_error, or error for all errors")
    .option("--from <time>", "earliest arrival, e.g. 2026-01-31 or 2026-01-31T12:00:00Z")
    .option("--to <time>", "end of the arrivals, exclusive");
  commands.onService(
    logs,
    async () => (await import("./commands/logs.js")).logs,
    "uis logs",
    "uis logs --follow --code error",
    "uis logs --model qwen3-0.6b --from 2026-01-31 --limit 1000 --json",
  );
}

/** `uis thresholds` */
export function addThresholds(program: Command, commands: CommandSet): void {
  const addition = "uis thresholds add --metric tokens --period month --limit 5000000";
  const summary = "usage thresholds and budgets";
  const thresholds = addGroup(program, "thresholds", { summary }, addition, "uis thresholds list");
  const code = () => import("./commands/usage.js");
  const metric = new Option("--metric <metric>", "counted quantity");
  const period = new Option("--period <period>", "UTC period after which the count starts again");
  const action = new Option("--action <action>", "refuse makes it a budget");
  const add = thresholds
    .command("add")
    .description("notify when usage reaches shares of a limit, or refuse requests beyond it")
    .addOption(oneOf(["tokens", "requests", "cost"], "METRIC_", metric).makeOptionMandatory())
    .addOption(oneOf(["day", "month"], "PERIOD_", period).makeOptionMandatory())
    .requiredOption("--limit <amount>", "tokens, requests, or money such as 50usd")
    .option("--percents <list>", "shares at which to notify; default: 50,80,100", parsePercents)
    .addOption(oneOf(["notify", "refuse"], "ACTION_", action))
    .addOption(accountOption("account; default: default"))
    .option("--key <id>", "count only this key");
  const budget = "uis thresholds add --metric cost --period month --limit 50usd --action refuse";
  commands.onService(add, async () => (await code()).addThreshold, addition, budget);
  const list = thresholds.command("list").description("list thresholds with their usage");
  list.addOption(accountOption("only thresholds of this account"));
  commands.onService(
    list,
    async () => (await code()).listThresholds,
    "uis thresholds list",
    "uis thresholds list --account team-a --json",
  );
  const rm = thresholds.command("rm").description("delete a threshold").argument("<id>", "id of the threshold");
  commands.onService(rm, async () => (await code()).removeThreshold, "uis thresholds rm thr_abcdefghijklmnopqrstuvwx");
}

/** Accepts one of the names, also as threshold objects spell it: `tokens` and `METRIC_TOKENS`. */
function oneOf(names: readonly string[], prefix: string, option: Option): Option {
  return option.choices(names).argParser((text: string) => {
    const name = text.startsWith(prefix) ? text.slice(prefix.length).toLowerCase() : text;
    if (names.includes(name)) return name;
    throw new InvalidArgumentError(`Allowed choices are ${names.join(", ")}.`);
  });
}

function parsePercents(text: string): number[] {
  const percents = text.split(",").map((item) => Number(item.trim().replace(/%$/, "")));
  if (percents.every((percent) => Number.isInteger(percent))) return percents;
  throw new InvalidArgumentError("It must be whole numbers, separated by commas: 50,80,100.");
}
