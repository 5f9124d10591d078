import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Action, Metric, Period, type Threshold } from "../../../gen/unified/admin/v1/threshold_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import {
  BucketWidth,
  type QueryUsageRequestSchema,
  type UsageBucket,
  UsageGroup,
  UsageService,
} from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { type CliIo, printJson, printLine, printList, UsageError } from "../command-line/cli-io.js";
import { isoTime, jsonInteger } from "../command-line/cli-values.js";
import type { ConfigOptions } from "./load-for-command.js";
import { administratorOrCallerTarget, callAsAdministrator, serviceClient, toCommandError } from "./service-client.js";

interface UsageOptions extends ConfigOptions {
  readonly from?: string;
  readonly to?: string;
  readonly by?: readonly string[];
  readonly account?: string;
  readonly json?: boolean;
}

/** One line of the answer; sums are text where JSON's numbers would round them. */
interface Row {
  readonly day: string;
  readonly model: string | null;
  readonly api_key_id: string | null;
  readonly requests: number | string;
  readonly prompt_tokens: number | string;
  readonly completion_tokens: number | string;
  readonly cached_tokens: number | string;
  readonly cost_nano_dollars: number | string;
}

const groups: ReadonlyMap<string, UsageGroup | null> = new Map([
  ["day", null],
  ["model", UsageGroup.MODEL],
  ["key", UsageGroup.KEY],
]);
const dayMs = 86_400_000;
/** What `--from` is without being said: a week, today included. */
const daysDefault = 7;

/** `uis usage`: sums by day, by model and by key, or over all days when `day` is not asked for. */
export async function usage(io: CliIo, options: UsageOptions): Promise<void> {
  const by = options.by ?? ["day", "model"];
  const unknown = by.find((name) => !groups.has(name));
  if (unknown !== undefined) throw new UsageError(`--by takes day, model and key, not ${unknown}`);
  const target = await administratorOrCallerTarget(io, options);
  const client = serviceClient(UsageService, target);
  const buckets: UsageBucket[] = [];
  const request = requestOf(options, by);
  try {
    for (let pageToken = "", more = true; more; more = pageToken !== "") {
      const page = await client.queryUsage({ ...request, pageToken });
      buckets.push(...page.buckets);
      pageToken = page.nextPageToken;
    }
  } catch (error) {
    throw toCommandError(error, target);
  }
  const rows = rowsOf(buckets, by.includes("day"));
  if (options.json) printJson(io, rows);
  else for (const line of table(rows)) printLine(io, line);
}

function requestOf(options: UsageOptions, by: readonly string[]): MessageInitShape<typeof QueryUsageRequestSchema> {
  const now = Date.now();
  const from = options.from === undefined ? now - (daysDefault - 1) * dayMs : dayOf(options.from, "--from");
  // The day of `--to` is meant to be in it.
  const to = options.to === undefined ? undefined : dayOf(options.to, "--to") + dayMs;
  return {
    account: options.account ?? "",
    startTime: timestampFromMs(from),
    ...(to === undefined ? {} : { endTime: timestampFromMs(to) }),
    bucketWidth: BucketWidth.DAY,
    groupBy: by.flatMap((name) => groups.get(name) ?? []),
    pageSize: 31,
  };
}

function dayOf(text: string, option: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms)) throw new UsageError(`${option} must be a day such as 2026-01-31, not ${text}`);
  return ms;
}

function rowsOf(buckets: readonly UsageBucket[], byDay: boolean): readonly Row[] {
  const sums = new Map<string, { day: string; model: string; apiKeyId: string; sum: bigint[] }>();
  for (const { startTime, results } of buckets) {
    const day = byDay && startTime !== undefined ? timestampDate(startTime).toISOString().slice(0, 10) : "";
    for (const result of results) {
      const { model, apiKeyId } = result;
      const name = JSON.stringify([day, model, apiKeyId]);
      const row = sums.get(name) ?? { day, model, apiKeyId, sum: [0n, 0n, 0n, 0n, 0n] };
      const own = [result.requests, result.promptTokens, result.completionTokens, result.cachedTokens];
      row.sum = [...own, result.costNanoDollars].map((value, i) => value + (row.sum[i] ?? 0n));
      sums.set(name, row);
    }
  }
  return [...sums.values()].map(({ day, model, apiKeyId, sum }) => ({
    day,
    model: model || null,
    api_key_id: apiKeyId || null,
    requests: jsonInteger(sum[0] ?? 0n),
    prompt_tokens: jsonInteger(sum[1] ?? 0n),
    completion_tokens: jsonInteger(sum[2] ?? 0n),
    cached_tokens: jsonInteger(sum[3] ?? 0n),
    cost_nano_dollars: jsonInteger(sum[4] ?? 0n),
  }));
}

function table(rows: readonly Row[]): readonly string[] {
  if (rows.length === 0) return ["Nothing was used in this time."];
  const head = ["day", "model", "key", "requests", "prompt", "completion", "cached", "nano-dollars"];
  const cells = rows.map((row) => Object.values(row).map((value) => String(value ?? "")));
  const widths = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]?.length ?? 0)));
  return [head, ...cells].map((row) =>
    row
      .map((cell, i) => (i < 3 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

interface Options extends ConfigOptions {
  readonly json?: boolean;
  readonly account?: string;
}

interface AddThresholdOptions extends Options {
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
