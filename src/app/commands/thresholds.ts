import { Action, Metric, Period, type Threshold } from "../../../gen/unified/admin/v1/threshold_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import { type CliIo, printJson, printLine, printList } from "../cli-io.js";
import { isoTime } from "./iso-time.js";
import { jsonInteger } from "./json-integer.js";
import type { ConfigOptions } from "./load-for-command.js";
import { callAsAdministrator } from "./service-client.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
  readonly account?: string;
}

export interface AddThresholdOptions extends Options {
  readonly metric: keyof typeof metrics;
  readonly period: keyof typeof periods;
  readonly limit: bigint;
  readonly percents?: number[];
  readonly action?: keyof typeof actions;
  /** Id of an API key. */
  readonly key?: string;
}

const metrics = { tokens: Metric.TOKENS, requests: Metric.REQUESTS, cost: Metric.COST };
const periods = { day: Period.DAY, month: Period.MONTH };
const actions = { notify: Action.NOTIFY, refuse: Action.REFUSE };

/** `uis thresholds add` */
export async function addThreshold(io: CliIo, options: AddThresholdOptions): Promise<void> {
  const { threshold } = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.createThreshold({
      threshold: {
        account: options.account ?? "",
        apiKeyId: options.key ?? "",
        metric: metrics[options.metric],
        period: periods[options.period],
        limit: options.limit,
        percents: options.percents ?? [],
        action: actions[options.action ?? "notify"],
      },
    }),
  );
  show(io, options, threshold);
}

/** `uis thresholds list` */
export async function listThresholds(io: CliIo, options: Options): Promise<void> {
  const { thresholds } = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.listThresholds({ account: options.account ?? "" }),
  );
  if (options.json) printJson(io, thresholds.map(toThresholdObject));
  else printList(io, thresholds.map(thresholdLine), "there is no threshold: uis thresholds add makes one");
}

/** `uis thresholds rm` */
export async function removeThreshold(io: CliIo, id: string, options: Options): Promise<void> {
  const removed = await callAsAdministrator(io, options, ThresholdService, async (client) => {
    const { thresholds } = await client.listThresholds({});
    await client.deleteThreshold({ id });
    return thresholds.find((threshold) => threshold.id === id);
  });
  if (options.json) printJson(io, { ...(removed === undefined ? { id } : toThresholdObject(removed)), deleted: true });
  else printLine(io, `${id} is deleted.`);
}

function show(io: CliIo, { json }: Options, threshold: Threshold | undefined): void {
  if (threshold === undefined) return;
  if (json) printJson(io, toThresholdObject(threshold));
  else printLine(io, thresholdLine(threshold));
}

function toThresholdObject(threshold: Threshold): object {
  return {
    id: threshold.id,
    account: threshold.account,
    api_key_id: threshold.apiKeyId || null,
    metric: `METRIC_${nameIn(metrics, threshold.metric).toUpperCase()}`,
    period: `PERIOD_${nameIn(periods, threshold.period).toUpperCase()}`,
    limit: jsonInteger(threshold.limit),
    percents: threshold.percents,
    action: `ACTION_${nameIn(actions, threshold.action).toUpperCase()}`,
    used: jsonInteger(threshold.used),
    created_at: isoTime(threshold.createdAt),
  };
}

function nameIn(values: Readonly<Record<string, number>>, wanted: number): string {
  return Object.entries(values).find(([, value]) => value === wanted)?.[0] ?? "unspecified";
}

function thresholdLine(threshold: Threshold): string {
  const whose = threshold.apiKeyId || threshold.account;
  const metric = nameIn(metrics, threshold.metric);
  const period = nameIn(periods, threshold.period);
  const action = nameIn(actions, threshold.action);
  const shares = threshold.percents.map((percent) => `${percent}%`).join(" ");
  return `${threshold.id}  ${whose}  ${threshold.used} of ${threshold.limit} ${metric} a ${period}  ${action} at ${shares}`;
}
