import { type Command, Option } from "commander";
import { deliveryStates } from "../domain/webhooks/delivery.js";
import {
  accountOption,
  addGroup,
  type CommandSet,
  jsonOption,
  notEmpty,
  parseList,
  parsePort,
  wholeNumber,
} from "./command-line/program-options.js";

const addition = "uis webhooks add --url https://hooks.example.com/ --events request.completed";
const anEndpoint = "we_abcdefghijklmnopqrstuvwx";
const aDelivery = "dlv_0123456789abcdef0123456789abcdef";

/** `uis webhooks`: endpoints and deliveries of a running service, and tools for receivers. */
export function addWebhooks(program: Command, commands: CommandSet): void {
  const summary = "webhook endpoints, deliveries, tools for receivers";
  const failures = "uis webhooks deliveries --state permanently_failed";
  const webhooks = addGroup(program, "webhooks", { summary }, addition, failures);
  addEndpoints(webhooks, commands);
  addDeliveries(webhooks, commands);
  addForReceivers(webhooks, commands);
}

function addEndpoints(webhooks: Command, commands: CommandSet): void {
  const code = () => import("./commands/webhooks/webhooks.js");
  const ofEndpoint = (name: string, description: string) => {
    const command = webhooks.command(name).description(description).argument("<id>", "id of the endpoint");
    return command.addOption(endpointAccount());
  };
  const add = webhooks
    .command("add")
    .description("create an endpoint; its secret is shown once")
    .requiredOption("--url <url>", "HTTPS URL that receives the events")
    .requiredOption("--events <types>", "request.completed,request.failed,usage.threshold_reached", parseList)
    .option("--description <text>", "optional note")
    .addOption(endpointAccount());
  commands.onService(add, async () => (await code()).addWebhook, addition);
  const list = webhooks.command("list").description("list endpoints of an account, oldest first");
  const listExamples = ["uis webhooks list", "uis webhooks list --account team-a --json"];
  commands.onService(list.addOption(endpointAccount()), async () => (await code()).listWebhooks, ...listExamples);
  const rm = ofEndpoint("rm", "delete an endpoint; its pending deliveries are cancelled");
  commands.onService(rm, async () => (await code()).removeWebhook, `uis webhooks rm ${anEndpoint}`);
  const rotate = ofEndpoint("rotate", "create a new secret; during the overlap deliveries are signed with both");
  rotate.option("--overlap <time>", "how long the old secret still signs, 0s to 7d; default: 24h");
  commands.onService(
    rotate,
    async () => (await code()).rotateWebhook,
    `uis webhooks rotate ${anEndpoint} --overlap 24h`,
  );
  const test = ofEndpoint("test", "send a sample event now and show the response");
  commands.onService(test, async () => (await code()).testWebhook, `uis webhooks test ${anEndpoint}`);
}

function endpointAccount(): Option {
  return accountOption("account of the endpoint; default: default");
}

function addDeliveries(webhooks: Command, commands: CommandSet): void {
  const code = () => import("./commands/webhooks/webhooks.js");
  const list = webhooks
    .command("deliveries")
    .description("list deliveries with their attempts, newest first")
    .addOption(new Option("--state <state>", "only deliveries in this state").choices(deliveryStates))
    .option("--endpoint <id>", "only deliveries to this endpoint")
    .addOption(accountOption("only deliveries of this account"))
    .option("--limit <number>", "maximum number of deliveries", wholeNumber(1, 999_999), 100);
  const failures = `uis webhooks deliveries --state permanently_failed --endpoint ${anEndpoint}`;
  commands.onService(list, async () => (await code()).listDeliveries, "uis webhooks deliveries", failures);
  const inspect = webhooks.command("inspect").argument("<id>", "id of the delivery");
  inspect.description("show a delivery with its payload and the receiver's responses");
  commands.onService(inspect, async () => (await code()).inspectDelivery, `uis webhooks inspect ${aDelivery}`);
  const retry = webhooks
    .command("retry")
    .description("retry a delivery once, immediately")
    .argument("<id>", "id of the delivery")
    .option("--restart", "restart the schedule of retries")
    .option("--again", "retry it even if it was delivered");
  commands.onService(
    retry,
    async () => (await code()).retryDelivery,
    `uis webhooks retry ${aDelivery}`,
    `uis webhooks retry ${aDelivery} --restart`,
  );
  const replay = webhooks
    .command("replay")
    .description("resend permanently failed deliveries of a time span; repeating the command sends nothing twice")
    .argument("<endpoint-id>", "id of the endpoint")
    .requiredOption("--from <time>", "created at or after: 2026-01-31 or 2026-01-31T12:00:00Z")
    .option("--to <time>", "created before; default: now")
    .option("--all", "also delivered ones")
    .option("--restart", "restart the schedule of retries of each")
    .addOption(endpointAccount());
  commands.onService(
    replay,
    async () => (await code()).replayDeliveries,
    `uis webhooks replay ${anEndpoint} --from 2026-01-31T12:00:00Z`,
  );
}

function addForReceivers(webhooks: Command, commands: CommandSet): void {
  const code = () => import("./commands/webhooks/receive.js");
  const verify = webhooks
    .command("verify")
    .description("verify the signature of a delivery; reads its unchanged body from stdin")
    .addOption(secretOption().makeOptionMandatory())
    .requiredOption("--header <value>", "value of its header Service-Signature")
    .option("--at <seconds>", "Unix time to use as now, for an old delivery", wholeNumber(0, 999_999_999_999))
    .addOption(jsonOption());
  commands.plain(
    verify,
    async () => (await code()).verifyDelivery,
    "uis webhooks verify --secret whsec_… --header t=…,v1=… < body.json",
  );
  const listen = webhooks
    .command("listen")
    .description("receive deliveries on this machine, verify and print each")
    .option("--port <number>", "port on 127.0.0.1; 0 picks a free one", parsePort, 4040)
    .addOption(secretOption())
    .addOption(jsonOption("print one line of JSON for each delivery"));
  commands.plain(
    listen,
    async () => (await code()).listenForDeliveries,
    "uis webhooks listen --secret whsec_…",
    "uis webhooks listen --json | jq .body",
  );
}

function secretOption(): Option {
  const option = new Option("--secret <secret>", "secret of the endpoint; repeat it to accept any of several");
  return option.argParser((secret, before: string[] = []) => [...before, notEmpty(secret)]);
}
