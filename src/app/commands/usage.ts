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
import { moneyText, parseMoney } from "../command-line/money.js";
import { type Cell, numeric, tableLines } from "../command-line/table.js";
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
  printList(io, options, rows.map(toRowObject), usageLines(io, rows, by), "no usage in this time span");
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

/** Usage of one day, model, key and operation. A name is empty if `--by` leaves it out. */
interface UsageRow {
  readonly day: string;
  readonly model: string;
  readonly key: string;
  readonly operation: string;
  /** Sums in the order of `sumNames`. */
  readonly sums: readonly bigint[];
}

function rowsOf(buckets: readonly UsageBucket[], byDay: boolean): readonly UsageRow[] {
  const rows = new Map<string, UsageRow>();
  for (const { startTime, results } of buckets) {
    const day = byDay && startTime !== undefined ? timestampDate(startTime).toISOString().slice(0, 10) : "";
    for (const result of results) {
      const { model, apiKeyId: key, operation } = result;
      const name = JSON.stringify([day, model, key, operation]);
      const own = [result.requests, result.promptTokens, result.completionTokens, result.cachedTokens];
      const before = rows.get(name)?.sums ?? [];
      const sums = [...own, result.costNanoDollars].map((value, i) => value + (before[i] ?? 0n));
      rows.set(name, { day, model, key, operation, sums });
    }
  }
  return [...rows.values()];
}

function toRowObject({ day, model, key, operation, sums }: UsageRow): object {
  return {
    day,
    model: model || null,
    api_key_id: key || null,
    operation: operation || null,
    ...Object.fromEntries(sumNames.map((name, i) => [name, jsonInteger(sums[i] ?? 0n)])),
  };
}

const sumColumns = ["REQUESTS", "PROMPT TOKENS", "COMPLETION TOKENS", "CACHED TOKENS", "COST"].map(numeric);

/** A column for each part of `--by`, then the sums. */
function usageLines(io: CliIo, rows: readonly UsageRow[], by: readonly string[]): readonly string[] {
  const parts = (["day", "model", "key", "operation"] as const).filter((name) => by.includes(name));
  const cells = rows.map((row) => {
    const counts = row.sums.slice(0, -1).map(String);
    return [...parts.map((part) => row[part]), ...counts, moneyText(row.sums.at(-1) ?? 0n)];
  });
  return tableLines(io, [...parts.map((part) => part.toUpperCase()), ...sumColumns], cells);
}

interface AddThresholdOptions extends Options {
  readonly metric: keyof typeof metrics;
  readonly period: keyof typeof periods;
  /** A whole number, or for costs an amount of money. */
  readonly limit: string;
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
  const { account = "", key: apiKeyId = "", percents = [], action = "notify" } = options;
  const limit = limitOf(options);
  const kind = { metric: metrics[options.metric], period: periods[options.period], action: actions[action] };
  const request = { threshold: { account, apiKeyId, limit, percents, ...kind } };
  const response = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.createThreshold(request),
  );
  const threshold = present(response.threshold);
  print(io, options, toThresholdObject(threshold), ...thresholdLines(io, [threshold]));
}

/** Tokens, requests or nano-dollars. Throws UsageError. */
function limitOf({ metric, limit: text }: AddThresholdOptions): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  const nanos = parseMoney(text);
  if (nanos === null) {
    const example = metric === "cost" ? "an amount such as 50usd, or whole nano-dollars" : "a whole number";
    throw new UsageError(`--limit: invalid limit "${text}"; use ${example}`);
  }
  if (metric === "cost") return nanos;
  throw new UsageError(`--limit: an amount of money needs --metric cost; ${metric} are a whole number`);
}

/** `uis thresholds list` */
export async function listThresholds(io: CliIo, options: Options): Promise<void> {
  const { account = "" } = options;
  const { thresholds } = await callAsAdministrator(io, options, ThresholdService, (client) =>
    client.listThresholds({ account }),
  );
  const ifNone = "there is no threshold: uis thresholds add creates one";
  printList(io, options, thresholds.map(toThresholdObject), thresholdLines(io, thresholds), ifNone);
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

function thresholdLines(io: CliIo, thresholds: readonly Threshold[]): readonly string[] {
  const columns = ["ID", "OWNER", "METRIC", "PERIOD", numeric("USED"), numeric("LIMIT"), "ACTION", "NOTIFY AT"];
  return tableLines(io, columns, thresholds.map(thresholdCells));
}

function thresholdCells({ id, apiKeyId, account, used, limit, percents, ...kind }: Threshold): readonly Cell[] {
  const amount = (value: bigint) => (kind.metric === Metric.COST ? moneyText(value) : String(value));
  return [
    id,
    apiKeyId || account,
    nameIn(metrics, kind.metric),
    nameIn(periods, kind.period),
    used >= limit ? ["bad", amount(used)] : amount(used),
    amount(limit),
    nameIn(actions, kind.action),
    percents.map((percent) => `${percent}%`).join(" "),
  ];
}
