import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { LimitOwner as OwnerMessage } from "../../../gen/unified/admin/v1/limit_pb.js";
import { LimitService } from "../../../gen/unified/admin/v1/limit_service_pb.js";
import { Action, Metric as MetricValue, Period as PeriodValue } from "../../../gen/unified/admin/v1/threshold_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import {
  BucketWidth,
  UsageGroup as GroupValue,
  UsageService,
  type WatchUsageResponse,
  WatchUsageResponseSchema,
} from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { defaultAccount } from "../access/api-key.js";
import type { LimitOwner } from "../call/rate-limits.js";
import { refuse } from "../call/service-error.js";
import type { Metric, PeriodKind, Threshold } from "../events/events.js";
import type { LimitReport, LimitsAdmin, LimitTarget } from "../metering/limits-admin.js";
import type { ThresholdAdmin, ThresholdProgress } from "../metering/threshold-admin.js";
import type { UsageBucket, UsageQueries } from "../metering/usage-queries.js";
import type { UsageGroup } from "../metering/usage-store.js";
import { limitFields, limitsOf } from "./api-key-service.js";
import { enumNumberOf, enumValueOf, instantOf, type RpcService, rpcService, timestampOf } from "./rpc-service.js";

const widths: ReadonlyMap<BucketWidth, "hour" | "day"> = new Map([
  [BucketWidth.HOUR, "hour"],
  [BucketWidth.DAY, "day"],
]);
const groups: ReadonlyMap<GroupValue, UsageGroup> = new Map([
  [GroupValue.MODEL, "model"],
  [GroupValue.KEY, "key"],
  [GroupValue.OPERATION, "operation"],
]);

/** `unified.admin.v1.UsageService`: keys read the usage of their own account, the administrator that of any account. */
export function createUsageService(questions: UsageQueries): RpcService {
  return rpcService(UsageService, {
    async queryUsage({ account, startTime, endTime, bucketWidth, groupBy, pageSize, pageToken }, ctx) {
      const { buckets, next } = await questions.query(ctx, {
        account,
        startMs: instantOf(startTime),
        endMs: instantOf(endTime),
        width: enumValueOf(widths, bucketWidth, "bucket_width") ?? "day",
        groupBy: groupBy.map(groupOf),
        limit: pageSize === 0 ? null : pageSize,
        page: pageToken,
      });
      return { buckets: buckets.map(bucketFields), nextPageToken: next ?? "" };
    },
    async watchUsage({ account, groupBy }, ctx) {
      ctx.watching();
      return { items: toResponses(questions.watch(ctx, { account, groupBy: groupBy.map(groupOf) })) };
    },
  });
}

async function* toResponses(buckets: AsyncIterable<UsageBucket>): AsyncGenerator<WatchUsageResponse> {
  for await (const bucket of buckets) yield create(WatchUsageResponseSchema, { bucket: bucketFields(bucket) });
}

function groupOf(value: GroupValue): UsageGroup {
  const group = enumValueOf(groups, value, "group_by");
  return group ?? refuse("invalid_value", "group_by", "'group_by' has an unset value.");
}

function bucketFields({ startMs, endMs, results }: UsageBucket) {
  return {
    startTime: timestampFromMs(startMs),
    endTime: timestampFromMs(endMs),
    results: results.map(({ model, keyId, operation, costNano, ...sums }) => ({
      ...sums,
      model: model ?? "",
      apiKeyId: keyId ?? "",
      operation: operation ?? "",
      costNanoDollars: costNano,
    })),
  };
}

/** `unified.admin.v1.LimitService`: administration of limits; `Core.open` has authorized the call. */
export function createLimitService(admin: LimitsAdmin): RpcService {
  return rpcService(LimitService, {
    async getLimits(request) {
      return { report: reportFields(await admin.get(targetOf(request))) };
    },
    async updateLimits({ owner, limits }, ctx) {
      return { report: reportFields(await admin.update(ownerOf(owner), limitsOf(limits), ctx)) };
    },
    async resetWindow(request, ctx) {
      return { report: reportFields(await admin.reset(targetOf(request), ctx)) };
    },
  });
}

function targetOf(request: { readonly owner?: OwnerMessage | undefined; readonly account: string }): LimitTarget {
  return { owner: ownerOf(request.owner), account: request.account || defaultAccount };
}

function ownerOf(message: OwnerMessage | undefined): LimitOwner {
  switch (message?.owner.case) {
    case "account":
    case "model":
      return { kind: message.owner.case, id: message.owner.value };
    case "apiKeyId":
      return { kind: "key", id: message.owner.value };
    default:
      return refuse("missing_required_parameter", "owner", "'owner' is required: an account, a model or an API key.");
  }
}

function reportFields({ owner, account, own, configured, effective, use, updatedAtMs }: LimitReport) {
  const ownerCase: "apiKeyId" | "account" | "model" = owner.kind === "key" ? "apiKeyId" : owner.kind;
  return {
    owner: { owner: { case: ownerCase, value: owner.id } },
    account,
    own: limitFields(own),
    configured: limitFields(configured),
    effective: limitFields(effective),
    use: { requests: BigInt(use.requests), tokens: BigInt(use.tokens), running: use.running },
    updatedAt: timestampOf(updatedAtMs),
  };
}

const metrics: ReadonlyMap<MetricValue, Metric> = new Map([
  [MetricValue.TOKENS, "tokens"],
  [MetricValue.REQUESTS, "requests"],
  [MetricValue.COST, "cost"],
]);
const periods: ReadonlyMap<PeriodValue, PeriodKind> = new Map([
  [PeriodValue.DAY, "day"],
  [PeriodValue.MONTH, "month"],
]);
const actions: ReadonlyMap<Action, Threshold["action"]> = new Map([
  [Action.NOTIFY, "notify"],
  [Action.REFUSE, "refuse"],
]);

/** `unified.admin.v1.ThresholdService`: administration of thresholds; `Core.open` has authorized the call. */
export function createThresholdService(admin: ThresholdAdmin): RpcService {
  return rpcService(ThresholdService, {
    async createThreshold({ threshold }, ctx) {
      if (threshold === undefined) {
        return refuse("missing_required_parameter", "threshold", "'threshold' is required.");
      }
      const metric = enumValueOf(metrics, threshold.metric, "metric");
      const period = enumValueOf(periods, threshold.period, "period");
      const action = enumValueOf(actions, threshold.action, "action");
      return { threshold: thresholdFields(await admin.create({ ...threshold, metric, period, action }, ctx)) };
    },
    async listThresholds({ account }) {
      return { thresholds: (await admin.list(account)).map(thresholdFields) };
    },
    async updateThreshold({ id, limit, percents, action }, ctx) {
      const newAction = enumValueOf(actions, action, "action") ?? undefined;
      const change = { limit, percents: percents?.values, action: newAction };
      return { threshold: thresholdFields(await admin.update(id, change, ctx)) };
    },
    async deleteThreshold({ id }, ctx) {
      await admin.remove(id, ctx);
      return {};
    },
  });
}

function thresholdFields({ threshold, used }: ThresholdProgress) {
  return {
    ...threshold,
    apiKeyId: threshold.apiKeyId ?? "",
    metric: enumNumberOf(metrics, threshold.metric),
    period: enumNumberOf(periods, threshold.period),
    percents: [...threshold.percents],
    action: enumNumberOf(actions, threshold.action),
    used,
    createdAt: timestampFromMs(threshold.createdAtMs),
    updatedAt: timestampFromMs(threshold.updatedAtMs),
  };
}
