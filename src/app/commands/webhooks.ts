import type { WebhookEndpoint } from "../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { WebhookEndpointService } from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { printable } from "../../lib/display-text.js";
import { type CliIo, exitCode, printJson, printLine, printList } from "../command-line/cli-io.js";
import { jsonInteger, overlapOf } from "../command-line/cli-values.js";
import type { ConfigOptions } from "./load-for-command.js";
import { callAsAdministrator } from "./service-client.js";
import { endpointLine, toEndpointObject } from "./webhooks-objects.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
  /** Default: `default`. */
  readonly account?: string;
}

interface AddWebhookOptions extends Options {
  readonly url: string;
  readonly events: string[];
  readonly description?: string;
}

interface RotateWebhookOptions extends Options {
  /** How long the old secret signs beside the new one. */
  readonly overlap?: string;
}

/** `uis webhooks add` */
export async function addWebhook(io: CliIo, options: AddWebhookOptions): Promise<void> {
  // --url is the endpoint's here, not the service's.
  const { url, events, description = "", account = "", ...rest } = options;
  const made = await callAsAdministrator(io, rest, WebhookEndpointService, (client) =>
    client.createWebhookEndpoint({ webhookEndpoint: { account, url, events, description } }),
  );
  printWithSecret(io, options, made);
}

/** `uis webhooks list` */
export async function listWebhooks(io: CliIo, options: Options): Promise<void> {
  const { webhookEndpoints } = await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.listWebhookEndpoints({ account: options.account ?? "" }),
  );
  if (options.json) printJson(io, webhookEndpoints.map(toEndpointObject));
  else {
    const ifNone = `the account ${options.account ?? "default"} has no endpoint: uis webhooks add makes one`;
    printList(io, webhookEndpoints.map(endpointLine), ifNone);
  }
}

/** `uis webhooks rm` */
export async function removeWebhook(io: CliIo, id: string, options: Options): Promise<void> {
  await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.deleteWebhookEndpoint({ id, account: options.account ?? "" }),
  );
  if (options.json) printJson(io, { id, object: "webhook_endpoint", deleted: true });
  else printLine(io, `${id} is deleted. What waited for it is cancelled.`);
}

/** `uis webhooks rotate` */
export async function rotateWebhook(io: CliIo, id: string, options: RotateWebhookOptions): Promise<void> {
  const overlap = overlapOf(options);
  const made = await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.rotateWebhookSecret({ id, account: options.account ?? "", ...overlap }),
  );
  printWithSecret(io, options, made);
}

/** The only place where a command shows the secret of an endpoint. */
function printWithSecret(
  io: CliIo,
  { json }: Options,
  { webhookEndpoint, secret }: { readonly webhookEndpoint?: WebhookEndpoint | undefined; readonly secret: string },
): void {
  if (webhookEndpoint === undefined) return;
  if (json) printJson(io, { ...toEndpointObject(webhookEndpoint), secret });
  else printLine(io, `${webhookEndpoint.id}\n${secret}`);
}

/** `uis webhooks test`: resolves with the exit code, 1 when the receiver did not take the sample. */
export async function testWebhook(io: CliIo, id: string, options: Options): Promise<number> {
  const answer = await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.sendTestEvent({ id, account: options.account ?? "" }),
  );
  const { delivered, status, error, latencyMs, response, payload } = answer;
  if (options.json) {
    printJson(io, {
      delivered,
      status: status || null,
      error: error || null,
      latency_ms: jsonInteger(latencyMs),
      response: status === 0 ? null : response,
      event: JSON.parse(payload),
    });
  } else {
    printLine(io, `${delivered ? "delivered" : "not delivered"}: ${error || status} after ${latencyMs} ms`);
    if (response !== "") printLine(io, printable(response));
  }
  return delivered ? exitCode.done : exitCode.failed;
}
