import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import type { Delivery } from "../../../gen/unified/webhook/v1/delivery_pb.js";
import {
  DeliveryService,
  type ReplayDeliveriesRequestSchema,
  type ReplayDeliveriesResponse,
} from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { type CliIo, printJson, printLine, printList } from "../command-line/cli-io.js";
import { isoTime, parseInstant } from "../command-line/cli-values.js";
import type { ConfigOptions } from "./load-for-command.js";
import { callAsAdministrator } from "./service-client.js";
import { attemptText, deliveryLine, toDeliveryObject } from "./webhooks-objects.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
}

interface ListDeliveriesOptions extends Options {
  readonly state?: string;
  /** Id. */
  readonly endpoint?: string;
  /** Default: all accounts. */
  readonly account?: string;
  /** Deliveries to show at most. */
  readonly limit: number;
}

interface RetryOptions extends Options {
  /** A whole new schedule of retries. */
  readonly restart?: boolean;
  /** Also when it was delivered. */
  readonly again?: boolean;
}

interface ReplayOptions extends Options {
  readonly from: string;
  readonly to?: string;
  /** Also those that were delivered. */
  readonly all?: boolean;
  /** A whole new schedule of retries for each. */
  readonly restart?: boolean;
  readonly account?: string;
}

const pageSizeMax = 1_000;
/** Deliveries that one call of a replay queues; when it queues as many, there may be more. */
const replayedMax = 10_000;

/** `uis webhooks deliveries`: the newest first. Says on stderr when there are more than were asked for. */
export async function listDeliveries(io: CliIo, options: ListDeliveriesOptions): Promise<void> {
  const { limit } = options;
  const filter = {
    state: options.state ?? "",
    endpointId: options.endpoint ?? "",
    account: options.account ?? "",
  };
  const found: Delivery[] = [];
  let pageToken = "";
  await callAsAdministrator(io, options, DeliveryService, async (client) => {
    do {
      const pageSize = Math.min(pageSizeMax, limit - found.length);
      const page = await client.listDeliveries({ ...filter, pageSize, pageToken });
      found.push(...page.deliveries);
      pageToken = page.nextPageToken;
    } while (pageToken !== "" && found.length < limit);
  });
  if (options.json)
    printJson(
      io,
      found.map((delivery) => toDeliveryObject(delivery, "list")),
    );
  else printList(io, found.map(deliveryLine), noDeliveryText(filter));
  if (pageToken !== "") io.stderr.write(`These are the newest ${found.length}; --limit shows more.\n`);
}

function noDeliveryText(filter: Readonly<Record<string, string>>): string {
  const isFiltered = Object.values(filter).some((value) => value !== "");
  if (isFiltered) return "no delivery is of that kind: uis webhooks deliveries lists all of them";
  return "there is no delivery: requests make them for the endpoints that uis webhooks add makes";
}

/** `uis webhooks inspect`: one delivery with what was posted and what the receiver answered. */
export async function inspectDelivery(io: CliIo, id: string, options: Options): Promise<void> {
  const { delivery, payload } = await callAsAdministrator(io, options, DeliveryService, (client) =>
    client.getDelivery({ id }),
  );
  if (delivery === undefined) return;
  if (options.json) {
    printJson(io, { ...toDeliveryObject(delivery, "single"), event: payload === "" ? null : JSON.parse(payload) });
    return;
  }
  printLine(io, deliveryLine(delivery));
  for (const attempt of delivery.attempts) printLine(io, attemptText(attempt));
  printLine(io, payload || "Its body was removed after its time.");
}

/** `uis webhooks retry` */
export async function retryDelivery(io: CliIo, id: string, options: RetryOptions): Promise<void> {
  const { restart = false, again = false } = options;
  const { delivery } = await callAsAdministrator(io, options, DeliveryService, (client) =>
    client.retryDelivery({ id, restartSchedule: restart, resendDelivered: again }),
  );
  if (delivery === undefined) return;
  if (options.json) printJson(io, toDeliveryObject(delivery, "single"));
  else printLine(io, deliveryLine(delivery));
}

/** `uis webhooks replay`: all of the span, in as many calls as it takes. */
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
  if (options.json) {
    printJson(io, { replay_id: replayId, queued, waiting, delivered, failed, created_before: isoTime(createdBefore) });
  } else {
    printLine(
      io,
      `${replayId}: ${queued} queued; of all its deliveries ${waiting} wait, ${delivered} were delivered, ${failed} failed again`,
    );
  }
}

/** Calls again, as the same replay, while a call has queued as many as one may. */
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
