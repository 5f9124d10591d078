import { type Command, InvalidArgumentError, Option } from "commander";
import { deliveryStates } from "../domain/webhooks/delivery.js";
import type { CliIo } from "./command-line/cli-io.js";
import {
  accountOption,
  addGroup,
  examples,
  jsonOption,
  ofService,
  parseList,
  parsePort,
  type SetExitCode,
} from "./command-line/program-options.js";

/** `uis webhooks`: endpoints and deliveries of a running service, and help for receivers. */
export function addWebhooks(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  const webhooks = addGroup(program, "webhooks", "webhook endpoints, deliveries, help for receivers").addHelpText(
    "after",
    examples(addingOne, "uis webhooks deliveries --state permanently_failed"),
  );
  addEndpoints(webhooks, io, setExitCode);
  addDeliveries(webhooks, io);
  addForReceivers(webhooks, io, setExitCode);
}

const addingOne = "uis webhooks add --url https://hooks.example.com/ --events request.completed";
const anEndpoint = "we_abcdefghijklmnopqrstuvwx";
const aDelivery = "dlv_0123456789abcdef0123456789abcdef";

function addEndpoints(webhooks: Command, io: CliIo, setExitCode: SetExitCode): void {
  ofService(
    webhooks
      .command("add")
      .description("make an endpoint; its secret is shown once")
      .requiredOption("--url <url>", "where events are posted to, https")
      .requiredOption("--events <types>", "request.completed,request.failed,usage.threshold_reached", parseList)
      .option("--description <text>", "for people")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples(addingOne))
    .action(async (options) => (await import("./commands/webhooks.js")).addWebhook(io, options));
  ofService(
    webhooks
      .command("list")
      .description("list endpoints of an account, the oldest first")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples("uis webhooks list", "uis webhooks list --account team-a --json"))
    .action(async (options) => (await import("./commands/webhooks.js")).listWebhooks(io, options));
  ofService(
    webhooks
      .command("rm")
      .description("delete an endpoint; what waits for it is cancelled")
      .argument("<id>", "id of the endpoint")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples(`uis webhooks rm ${anEndpoint}`))
    .action(async (id: string, options) => (await import("./commands/webhooks.js")).removeWebhook(io, id, options));
  ofService(
    webhooks
      .command("rotate")
      .description("make a new secret; the old one signs beside it for a while")
      .argument("<id>", "id of the endpoint")
      .option("--overlap <time>", "how long the old secret still signs, 0s to 7d; default: 24h")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples(`uis webhooks rotate ${anEndpoint} --overlap 24h`))
    .action(async (id: string, options) => (await import("./commands/webhooks.js")).rotateWebhook(io, id, options));
  ofService(
    webhooks
      .command("test")
      .description("post a sample event at once and show the answer")
      .argument("<id>", "id of the endpoint")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples(`uis webhooks test ${anEndpoint}`))
    .action(async (id: string, options) =>
      setExitCode(await (await import("./commands/webhooks.js")).testWebhook(io, id, options)),
    );
}

function addDeliveries(webhooks: Command, io: CliIo): void {
  ofService(
    webhooks
      .command("deliveries")
      .description("list deliveries with their attempts, the newest first")
      .addOption(new Option("--state <state>", "only those in this state").choices(deliveryStates))
      .option("--endpoint <id>", "only those to this endpoint")
      .addOption(accountOption("only those of this account"))
      .option("--limit <number>", "how many at most", parseLimit, 100),
  )
    .addHelpText(
      "after",
      examples(
        "uis webhooks deliveries",
        `uis webhooks deliveries --state permanently_failed --endpoint ${anEndpoint}`,
      ),
    )
    .action(async (options) => (await import("./commands/webhooks-deliveries.js")).listDeliveries(io, options));
  ofService(
    webhooks
      .command("inspect")
      .description("show a delivery, what was posted and what the receiver answered")
      .argument("<id>", "id of the delivery"),
  )
    .addHelpText("after", examples(`uis webhooks inspect ${aDelivery}`))
    .action(async (id: string, options) =>
      (await import("./commands/webhooks-deliveries.js")).inspectDelivery(io, id, options),
    );
  ofService(
    webhooks
      .command("retry")
      .description("make one attempt at once")
      .argument("<id>", "id of the delivery")
      .option("--restart", "with a whole new schedule of retries")
      .option("--again", "also when it was delivered"),
  )
    .addHelpText("after", examples(`uis webhooks retry ${aDelivery}`, `uis webhooks retry ${aDelivery} --restart`))
    .action(async (id: string, options) =>
      (await import("./commands/webhooks-deliveries.js")).retryDelivery(io, id, options),
    );
  ofService(
    webhooks
      .command("replay")
      .description("send again what failed for good in a span of time; asked twice, nothing is sent twice")
      .argument("<endpoint-id>", "id of the endpoint")
      .requiredOption("--from <time>", "what was created from then on: 2026-01-31 or 2026-01-31T12:00:00Z")
      .option("--to <time>", "what was created before then; default: now")
      .option("--all", "also what was delivered")
      .option("--restart", "with a whole new schedule of retries for each")
      .addOption(accountOption("the account of the endpoint; default: default")),
  )
    .addHelpText("after", examples(`uis webhooks replay ${anEndpoint} --from 2026-01-31T12:00:00Z`))
    .action(async (id: string, options) =>
      (await import("./commands/webhooks-deliveries.js")).replayDeliveries(io, id, options),
    );
}

function addForReceivers(webhooks: Command, io: CliIo, setExitCode: SetExitCode): void {
  webhooks
    .command("verify")
    .description("tell whether a delivery is genuine; its body, as it came, is read from stdin")
    .addOption(secretOption().makeOptionMandatory())
    .requiredOption("--header <value>", "value of its header Service-Signature")
    .option("--at <seconds>", "Unix time that takes the place of now, for a delivery of the past", parseSeconds)
    .addOption(jsonOption())
    .addHelpText("after", examples("uis webhooks verify --secret whsec_… --header t=…,v1=… < body.json"))
    .action(async (options) =>
      setExitCode(await (await import("./commands/webhooks-receive.js")).verifyDelivery(io, options)),
    );
  webhooks
    .command("listen")
    .description("receive deliveries on this machine, check and print each")
    .option("--port <number>", "port on 127.0.0.1; 0 picks a free one", parsePort, 4040)
    .addOption(secretOption())
    .addOption(jsonOption("print one line of JSON for each delivery"))
    .addHelpText("after", examples("uis webhooks listen --secret whsec_…", "uis webhooks listen --json | jq .body"))
    .action(async (options) => (await import("./commands/webhooks-receive.js")).listenForDeliveries(io, options));
}

function secretOption(): Option {
  const option = new Option("--secret <secret>", "secret of the endpoint; given again, any of them is good");
  return option.argParser((secret, before: string[] = []) => {
    if (secret === "") throw new InvalidArgumentError("It must not be empty.");
    return [...before, secret];
  });
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number between 1 and 999999.");
}

function parseSeconds(text: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be Unix time in whole seconds.");
}
