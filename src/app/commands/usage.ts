import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import { Action, Metric, Period, type Threshold, ThresholdSchema } from "../../../gen/unified/admin/v1/threshold_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import {
  BucketWidth,
  type QueryUsageRequestSchema,
  type UsageBucket,
  UsageGroup,
  UsageService,
} from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { type CliIo, print, printList, UsageError } from "../command-line/cli-io.js";
import { jsonInteger, toJsonObject } from "../command-line/cli-values.js";
import type { CommandOptions } from "./load-for-command.js";
import {
  administratorOrCallerTarget,
  callAsAdministrator,
  explained,
  pagesOf,
  present,
  serviceClient,
} from "./service-client.js";

interface Options extends CommandOptions {
  readonly account?: string;
}

interface UsageOptions extends Options {
  readonly from?: string;
  readonly to?: string;
  readonly by?: readonly string[];
}

const groups: ReadonlyMap<string, UsageGroup | null> = new Map([
  ["day", null],
  ["model", UsageGroup.MODEL],
  ["key", UsageGroup.KEY],
  ["operation", UsageGroup.OPERATION],
]);
const dayMs = 86_400_000;
/** Number of days without `--from`, today included. */
const daysDefault = 7;

/** `uis usage`: sums by day, model, key and operation; without `day` over all days. */
export async function usage(io: CliIo, options: UsageOptions): Promise<void> {
  const by = options.by ?? ["day", "model"];
  const unknown = by.find((name) => !groups.has(name));
  if (unknown !== undefined) throw new UsageError(`--by takes day, model, key and operation, not ${unknown}`);
  const target = await administratorOrCallerTarget(io, options);
  const buckets = await explained(target, queryAll(serviceClient(UsageService, target), requestOf(options, by)));
  const rows = rowsOf(buckets, by.includes("day"));
  print(io, options, rows, ...tableOf(rows));
}

type UsageRequest = MessageInitShape<typeof QueryUsageRequestSchema>;

async function queryAll(client: Client<typeof UsageService>, request: UsageRequest): Promise<readonly UsageBucket[]> {
  const buckets: UsageBucket[] = [];
  const pages = pagesOf((pageToken) => client.queryUsage({ ...request, pageToken }));
  for await (const page of pages) buckets.push(...page.buckets);
  return buckets;
}

function requestOf(options: UsageOptions, by: readonly string[]): UsageRequest {
  const from = options.from === undefined ? Date.now() - (daysDefault - 1) * dayMs : dayOf(options.from, "--from");
  return {
    account: options.account ?? "",
    startTime: timestampFromMs(from),
    // The day of `--to` is included.
    ...(options.to !== undefined && { endTime: timestampFromMs(dayOf(options.to, "--to") + dayMs) }),
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

const sumNames = ["requests", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_nano_dollars"] as const;

/** One row per day, model, key and operation. */
function rowsOf(buckets: readonly UsageBucket[], byDay: boolean) {
  const sums = new Map<string, { day: string; model: string; apiKeyId: string; operation: string; sum: bigint[] }>();
  for (const { startTime, results } of buckets) {
    const day = byDay && startTime !== undefined ? timestampDate(startTime).toISOString().slice(0, 10) : "";
    for (const result of results) {
      const { model, apiKeyId, operation } = result;
      const name = JSON.stringify([day, model, apiKeyId, operation]);
      const row = sums.get(name) ?? { day, model, apiKeyId, operation, sum: [0n, 0n, 0n, 0n, 0n] };
      const own = [result.requests, result.promptTokens, result.completionTokens, result.cachedTokens];
      row.sum = [...own, result.costNanoDollars].map((value, i) => value + (row.sum[i] ?? 0n));
      sums.set(name, row);
    }
  }
  return [...sums.values()].map(({ day, model, apiKeyId, operation, sum }) => ({
    day,
    model: model || null,
    api_key_id: apiKeyId || null,
    operation: operation || null,
    ...Object.fromEntries(sumNames.map((name, i) => [name, jsonInteger(sum[i] ?? 0n)])),
  }));
}

function tableOf(rows: readonly object[]): readonly string[] {
  if (rows.length === 0) return ["No usage in this time span."];
  const head = ["day", "model", "key", "operation", "requests", "prompt", "completion", "cached", "nano-dollars"];
  const cells = rows.map((row) => Object.values(row).map((value) => String(value ?? "")));
  const widths = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]?.length ?? 0)));
  return [head, ...cells].map((row) =>
    row
      .map((cell, i) => (i < 4 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
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
  const { account = "", key: apiKeyId = "", limit, percents = [], action = "notify" } = options;
  const kind = { metric: metrics[options.metric], period: periods[options.period], action: actions[action] };
  const request = { threshold: { account, apiKeyId, limit, percents, ...kind } };
  const response = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.createThreshold(request),
  );
  const threshold = present(response.threshold);
  print(io, options, toThresholdObject(threshold), thresholdLine(threshold));
}

/** `uis thresholds list` */
export async function listThresholds(io: CliIo, options: Options): Promise<void> {
  const { account = "" } = options;
  const { thresholds } = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.listThresholds({ account }),
  );
  const ifNone = "there is no threshold: uis thresholds add creates one";
  printList(io, options, thresholds.map(toThresholdObject), thresholds.map(thresholdLine), ifNone);
}

/** `uis thresholds rm` */
export async function removeThreshold(io: CliIo, id: string, options: Options): Promise<void> {
  const removed = await callAsAdministrator(io, options, ThresholdService, async (client) => {
    const { thresholds } = await client.listThresholds({});
    await client.deleteThreshold({ id });
    return thresholds.find((threshold) => threshold.id === id);
  });
  const object = removed === undefined ? { id } : toThresholdObject(removed);
  print(io, options, { ...object, deleted: true }, `${id} is deleted.`);
}

function toThresholdObject(threshold: Threshold): object {
  const { updated_at: _, ...fields } = toJsonObject(ThresholdSchema, threshold, ["api_key_id"]);
  return {
    ...fields,
    metric: `METRIC_${nameIn(metrics, threshold.metric).toUpperCase()}`,
    period: `PERIOD_${nameIn(periods, threshold.period).toUpperCase()}`,
    action: `ACTION_${nameIn(actions, threshold.action).toUpperCase()}`,
  };
}

function nameIn(values: Readonly<Record<string, number>>, wanted: number): string {
  return Object.entries(values).find(([, value]) => value === wanted)?.[0] ?? "unspecified";
}

function thresholdLine({ id, apiKeyId, account, used, limit, percents, ...kind }: Threshold): string {
  const metric = nameIn(metrics, kind.metric);
  const period = nameIn(periods, kind.period);
  const action = nameIn(actions, kind.action);
  const shares = percents.map((percent) => `${percent}%`).join(" ");
  return `${id}  ${apiKeyId || account}  ${used} of ${limit} ${metric} a ${period}  ${action} at ${shares}`;
}
