import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import {
  type Attempt,
  AttemptSchema,
  type Delivery,
  DeliverySchema,
} from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import {
  DeliveryService,
  type ReplayDeliveriesRequestSchema,
  type ReplayDeliveriesResponse,
} from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { type WebhookEndpoint, WebhookEndpointSchema } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { WebhookEndpointService } from "../../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { printable } from "../../../lib/display-text.js";
import { type CliIo, exitCode, print, printList } from "../../command-line/cli-io.js";
import {
  isoTime,
  jsonInteger,
  minuteText,
  overlapOf,
  parseInstant,
  toJsonObject,
} from "../../command-line/cli-values.js";
import { type Cell, factLines, numeric, type Tone, tableLines } from "../../command-line/table.js";
import type { CommandOptions } from "../load-for-command.js";
import { callAsAdministrator, pagesOf, present } from "../service-client.js";

interface Options extends CommandOptions {
  /** Default: the account `default`; for lists of deliveries: all accounts. */
  readonly account?: string;
}

interface AddOptions extends Options {
  readonly url: string;
  readonly events: string[];
  readonly description?: string;
  readonly serviceUrl?: string;
}

interface ListDeliveriesOptions extends Options {
  readonly state?: string;
  /** Id of an endpoint. */
  readonly endpoint?: string;
  /** Maximum number of deliveries. */
  readonly limit: number;
}

interface RetryOptions extends Options {
  readonly restart?: boolean;
  readonly again?: boolean;
}

interface ReplayOptions extends Options {
  readonly from: string;
  readonly to?: string;
  readonly all?: boolean;
  readonly restart?: boolean;
}

/** `uis webhooks add` */
export async function addWebhook(io: CliIo, options: AddOptions): Promise<void> {
  // Here --url is the URL of the endpoint, and --service-url that of the service.
  const { url, events, description = "", account = "", serviceUrl, ...rest } = options;
  const request = { webhookEndpoint: { account, url, events, description } };
  const created = await callAsAdministrator(io, { ...rest, url: serviceUrl }, WebhookEndpointService, (client) =>
    client.createWebhookEndpoint(request),
  );
  printWithSecret(io, options, created);
}

/** `uis webhooks list` */
export async function listWebhooks(io: CliIo, options: Options): Promise<void> {
  const { account = "" } = options;
  const { webhookEndpoints: endpoints } = await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.listWebhookEndpoints({ account }),
  );
  const ifNone = `the account ${account || "default"} has no endpoint: uis webhooks add creates one`;
  const lines = tableLines(io, endpointColumns, endpoints.map(endpointCells));
  printList(io, options, endpoints.map(toEndpointObject), lines, ifNone);
}

/** `uis webhooks rm` */
export async function removeWebhook(io: CliIo, id: string, options: Options): Promise<void> {
  const request = { id, account: options.account ?? "" };
  await callAsAdministrator(io, options, WebhookEndpointService, (client) => client.deleteWebhookEndpoint(request));
  const text = `${id} is deleted. Its pending deliveries are cancelled.`;
  print(io, options, { id, object: "webhook_endpoint", deleted: true }, text);
}

/** `uis webhooks rotate` */
export async function rotateWebhook(
  io: CliIo,
  id: string,
  options: Options & { readonly overlap?: string },
): Promise<void> {
  const request = { id, account: options.account ?? "", ...overlapOf(options) };
  const created = await callAsAdministrator(io, options, WebhookEndpointService, (client) =>
    client.rotateWebhookSecret(request),
  );
  printWithSecret(io, options, created);
}

/** The only output with the secret of an endpoint. */
function printWithSecret(
  io: CliIo,
  options: Options,
  { webhookEndpoint, secret }: { webhookEndpoint?: WebhookEndpoint | undefined; secret: string },
): void {
  const endpoint = present(webhookEndpoint);
  const lines = factLines([
    ["Endpoint", endpoint.id],
    ["Secret", `${secret}   (shown once: store it now)`],
  ]);
  print(io, options, { ...toEndpointObject(endpoint), secret }, ...lines);
}

/** `uis webhooks test`: resolves with the exit code, 1 if the receiver rejected the sample. */
export async function testWebhook(io: CliIo, id: string, options: Options): Promise<number> {
  const request = { id, account: options.account ?? "" };
  const { delivered, status, error, latencyMs, response, payload } = await callAsAdministrator(
    io,
    options,
    WebhookEndpointService,
    (client) => client.sendTestEvent(request),
  );
  const result = {
    delivered,
    status: status || null,
    error: error || null,
    latency_ms: jsonInteger(latencyMs),
    response: status === 0 ? null : response,
    event: JSON.parse(payload),
  };
  const line = `${delivered ? "delivered" : "not delivered"}: ${error || status} after ${latencyMs} ms`;
  print(io, options, result, line, ...(response === "" ? [] : [printable(response)]));
  return delivered ? exitCode.done : exitCode.failed;
}

function toEndpointObject(endpoint: WebhookEndpoint): object {
  const { id, ...fields } = toJsonObject(WebhookEndpointSchema, endpoint, ["disabled_reason"]);
  return { id, object: "webhook_endpoint", ...fields };
}

const endpointColumns = ["ID", "STATUS", "ACCOUNT", "URL", "EVENTS", "FAILING SINCE"];

function endpointCells({ id, account, url, events, status, failingSince }: WebhookEndpoint): readonly Cell[] {
  const tone = status === "enabled" ? "good" : "bad";
  return [id, [tone, status], account, url, events.join(","), ["bad", minuteText(failingSince, "")]];
}

const pageSizeMax = 1_000;
/** Maximum deliveries that one call of a replay queues. A call that queues this number must be repeated. */
const replayedMax = 10_000;

/** `uis webhooks deliveries`: newest first. Says on stderr if there are more than `--limit`. */
export async function listDeliveries(io: CliIo, options: ListDeliveriesOptions): Promise<void> {
  const { limit, state = "", endpoint: endpointId = "", account = "" } = options;
  const found: Delivery[] = [];
  let hasMore = false;
  await callAsAdministrator(io, options, DeliveryService, async (client) => {
    const pageOf = (pageToken: string) => {
      const pageSize = Math.min(pageSizeMax, limit - found.length);
      return client.listDeliveries({ state, endpointId, account, pageSize, pageToken });
    };
    for await (const { deliveries, nextPageToken } of pagesOf(pageOf)) {
      found.push(...deliveries);
      hasMore = nextPageToken !== "";
      if (found.length >= limit) return;
    }
  });
  const ifNone =
    state + endpointId + account === ""
      ? "there is no delivery: events create them for the endpoints of uis webhooks add"
      : "no delivery matches: uis webhooks deliveries lists all of them";
  printList(io, options, found.map(toListedObject), deliveryLines(io, found), ifNone);
  if (hasMore) io.stderr.write(`These are the newest ${found.length}; --limit shows more.\n`);
}

/** `uis webhooks inspect` */
export async function inspectDelivery(io: CliIo, id: string, options: Options): Promise<void> {
  const response = await callAsAdministrator(io, options, DeliveryService, (client) => client.getDelivery({ id }));
  const { payload } = response;
  const delivery = present(response.delivery);
  const lines = [...deliveryLines(io, [delivery]), ...delivery.attempts.map(attemptText)];
  const event: unknown = payload === "" ? null : JSON.parse(payload);
  print(io, options, { ...toDeliveryObject(delivery), event }, ...lines, payload || "Its payload has expired.");
}

/** `uis webhooks retry` */
export async function retryDelivery(io: CliIo, id: string, options: RetryOptions): Promise<void> {
  const { restart: restartSchedule = false, again: resendDelivered = false } = options;
  const { delivery } = await callAsAdministrator(io, options, DeliveryService, (client) =>
    client.retryDelivery({ id, restartSchedule, resendDelivered }),
  );
  print(io, options, toDeliveryObject(present(delivery)), ...deliveryLines(io, [present(delivery)]));
}

/** `uis webhooks replay`: replays the whole time span, with several calls if necessary. */
export async function replayDeliveries(io: CliIo, endpointId: string, options: ReplayOptions): Promise<void> {
  const { to, all = false, restart = false, account = "" } = options;
  const request = {
    endpointId,
    account,
    includeDelivered: all,
    restartSchedule: restart,
    createdFrom: timestampFromDate(parseInstant("--from", options.from)),
    ...(to === undefined ? {} : { createdBefore: timestampFromDate(parseInstant("--to", to)) }),
  };
  const { queued, last } = await callAsAdministrator(io, options, DeliveryService, (client) =>
    replayAll(client, request),
  );
  const { replayId, waiting, delivered, failed, createdBefore } = last;
  print(
    io,
    options,
    { replay_id: replayId, queued, waiting, delivered, failed, created_before: isoTime(createdBefore) },
    `${replayId}: ${queued} queued; of all its deliveries ${waiting} wait, ${delivered} were delivered, ${failed} failed again`,
  );
}

/** Repeats the call for the same replay until one queues less than the maximum. */
async function replayAll(
  client: Client<typeof DeliveryService>,
  request: MessageInitShape<typeof ReplayDeliveriesRequestSchema>,
): Promise<{ readonly queued: number; readonly last: ReplayDeliveriesResponse }> {
  let last = await client.replayDeliveries(request);
  let queued = last.queued;
  while (last.queued >= replayedMax) {
    const { replayId, createdBefore } = last;
    last = await client.replayDeliveries({ ...request, replayId, ...(createdBefore ? { createdBefore } : {}) });
    queued += last.queued;
  }
  return { queued, last };
}

function toDeliveryObject(delivery: Delivery): Record<string, unknown> {
  const attempts = delivery.attempts.map((attempt) => {
    const { response, ...fields } = toAttemptObject(attempt);
    return { ...fields, response: attempt.status === 0 ? null : response };
  });
  return { ...toJsonObject(DeliverySchema, delivery, ["reason", "replay_id"]), attempts };
}

/** A list contains no headers of requests and no responses of receivers. */
function toListedObject(delivery: Delivery): object {
  const attempts = delivery.attempts.map(toAttemptObject).map(({ response: _, headers: __, ...fields }) => fields);
  return { ...toDeliveryObject(delivery), attempts };
}

function toAttemptObject(attempt: Attempt): Record<string, unknown> {
  const headers = Object.entries(attempt.headers).map(([name, value]) => ({ name, value }));
  return { ...toJsonObject(AttemptSchema, attempt, ["by", "status", "error", "ip", "retry_after"]), headers };
}

const tonesOfStates: Readonly<Partial<Record<string, Tone>>> = {
  delivered: "good",
  awaiting_retry: "warning",
  permanently_failed: "bad",
};

function deliveryLines(io: CliIo, deliveries: readonly Delivery[]): readonly string[] {
  const columns = ["ID", "CREATED", "EVENT", "ENDPOINT", "STATE", numeric("ATTEMPTS"), "LAST", "NEXT ATTEMPT"];
  return tableLines(io, columns, deliveries.map(deliveryCells));
}

function deliveryCells(delivery: Delivery): readonly Cell[] {
  const { id, eventType, endpointId, state, reason, attemptsMade, nextAttemptAt, createdAt } = delivery;
  const last = delivery.attempts.at(-1);
  const stateText = reason === "" ? state : `${state} (${reason})`;
  const tone = tonesOfStates[state];
  return [
    id,
    minuteText(createdAt, ""),
    eventType,
    endpointId,
    tone === undefined ? stateText : [tone, stateText],
    String(attemptsMade),
    last === undefined ? "" : last.error || String(last.status),
    isoTime(nextAttemptAt) ?? "",
  ];
}

/** One line for the attempt, with the receiver's response below. */
function attemptText({ number, trigger, startedAt, latencyMs, status, error, response }: Attempt): string {
  const head = `  ${number}  ${isoTime(startedAt)}  ${trigger}  ${error || status} after ${latencyMs} ms`;
  return response === "" ? head : `${head}\n${printable(response).replace(/^/gm, "     ")}`;
}
