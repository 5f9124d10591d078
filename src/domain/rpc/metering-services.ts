import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Limits, LimitsSchema } from "../../../gen/unified/admin/v1/api_key_pb.js";
import {
  LimitOwnerSchema,
  LimitReportSchema,
  type LimitOwner as OwnerMessage,
  type LimitReport as ReportMessage,
} from "../../../gen/unified/admin/v1/limit_pb.js";
import {
  GetLimitsResponseSchema,
  LimitService,
  ResetWindowResponseSchema,
  UpdateLimitsResponseSchema,
} from "../../../gen/unified/admin/v1/limit_service_pb.js";
import {
  Action,
  Metric as MetricValue,
  Period as PeriodValue,
  type Threshold as ThresholdMessage,
  ThresholdSchema,
} from "../../../gen/unified/admin/v1/threshold_pb.js";
import {
  CreateThresholdResponseSchema,
  DeleteThresholdResponseSchema,
  ListThresholdsResponseSchema,
  ThresholdService,
  UpdateThresholdResponseSchema,
} from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import {
  type UsageBucket as BucketMessage,
  BucketWidth,
  UsageGroup as GroupValue,
  QueryUsageResponseSchema,
  UsageBucketSchema,
  UsageService,
  type WatchUsageResponse,
  WatchUsageResponseSchema,
} from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { defaultAccount } from "../access/api-key.js";
import { type LimitOwner, type RateLimits, unlimited } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { Metric, PeriodKind, Threshold } from "../events/threshold.js";
import type { LimitReport, LimitsAdmin, LimitTarget } from "../metering/limits-admin.js";
import type { ThresholdAdmin, ThresholdProgress } from "../metering/threshold-admin.js";
import type { UsageBucket } from "../metering/usage-query.js";
import type { UsageQuestions } from "../metering/usage-questions.js";
import type { UsageGroup } from "../metering/usage-store.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.UsageService`: an account's own usage by its keys, any account's by the administrator. */
export function createUsageService(questions: UsageQuestions): RpcService {
  return rpcService(UsageService, {
    async queryUsage({ account, startTime, endTime, bucketWidth, groupBy, pageSize, pageToken }, ctx) {
      const { buckets, next } = await questions.query(ctx, {
        account,
        startMs: startTime === undefined ? null : timestampMs(startTime),
        endMs: endTime === undefined ? null : timestampMs(endTime),
        width: widthOf(bucketWidth),
        groupBy: groupBy.map(groupOf),
        limit: pageSize === 0 ? null : pageSize,
        page: pageToken,
      });
      return create(QueryUsageResponseSchema, { buckets: buckets.map(bucketMessage), nextPageToken: next ?? "" });
    },
    async watchUsage({ account, groupBy }, ctx) {
      ctx.watching();
      const buckets = questions.watch(ctx, { account, groupBy: groupBy.map(groupOf) });
      return { items: toResponses(buckets) };
    },
  });
}

async function* toResponses(buckets: AsyncIterable<UsageBucket>): AsyncGenerator<WatchUsageResponse> {
  for await (const bucket of buckets) yield create(WatchUsageResponseSchema, { bucket: bucketMessage(bucket) });
}

function widthOf(value: BucketWidth): "hour" | "day" {
  switch (value) {
    case BucketWidth.UNSPECIFIED:
    case BucketWidth.DAY:
      return "day";
    case BucketWidth.HOUR:
      return "hour";
    default:
      throw unknownValue("bucket_width", value);
  }
}

function groupOf(value: GroupValue): UsageGroup {
  switch (value) {
    case GroupValue.MODEL:
      return "model";
    case GroupValue.KEY:
      return "key";
    default:
      throw unknownValue("group_by", value);
  }
}

function bucketMessage({ startMs, endMs, results }: UsageBucket): BucketMessage {
  return create(UsageBucketSchema, {
    startTime: timestampFromMs(startMs),
    endTime: timestampFromMs(endMs),
    results: results.map(({ model, keyId, requests, promptTokens, completionTokens, cachedTokens, costNano }) => ({
      model: model ?? "",
      apiKeyId: keyId ?? "",
      requests,
      promptTokens,
      completionTokens,
      cachedTokens,
      costNanoDollars: costNano,
    })),
  });
}

/** `unified.admin.v1.LimitService`: administration of limits; `Core.open` has authorized the call. */
export function createLimitService(admin: Pick<LimitsAdmin, "get" | "update" | "reset">): RpcService {
  return rpcService(LimitService, {
    async getLimits(request) {
      return create(GetLimitsResponseSchema, { report: reportMessage(await admin.get(targetOf(request))) });
    },
    async updateLimits({ owner, limits }, ctx) {
      const report = await admin.update(ownerOf(owner), limitsOf(limits), ctx);
      return create(UpdateLimitsResponseSchema, { report: reportMessage(report) });
    },
    async resetWindow(request, ctx) {
      return create(ResetWindowResponseSchema, { report: reportMessage(await admin.reset(targetOf(request), ctx)) });
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
      throw new ServiceError("missing_required_parameter", "'owner' is required: an account, a model or an API key.", {
        param: "owner",
      });
  }
}

function ownerMessage({ kind, id }: LimitOwner): OwnerMessage {
  return create(LimitOwnerSchema, { owner: { case: kind === "key" ? "apiKeyId" : kind, value: id } });
}

function reportMessage(report: LimitReport): ReportMessage {
  const { owner, account, own, configured, effective, use, updatedAtMs } = report;
  return create(LimitReportSchema, {
    owner: ownerMessage(owner),
    account,
    own: limitsMessage(own),
    configured: limitsMessage(configured),
    effective: limitsMessage(effective),
    use: { requests: BigInt(use.requests), tokens: BigInt(use.tokens), running: use.running },
    ...(updatedAtMs === null ? {} : { updatedAt: timestampFromMs(updatedAtMs) }),
  });
}

/** Limits as a message; unset limits are absent. */
export function limitsMessage({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): Limits {
  return create(LimitsSchema, {
    ...(requestsPerMinute === null ? {} : { requestsPerMinute: BigInt(requestsPerMinute) }),
    ...(tokensPerMinute === null ? {} : { tokensPerMinute: BigInt(tokensPerMinute) }),
    ...(concurrency === null ? {} : { concurrency }),
  });
}

/** Limits of a request, not validated; absent ones are unset. */
export function limitsOf(message: Limits | undefined): RateLimits {
  if (message === undefined) return unlimited;
  const { requestsPerMinute, tokensPerMinute, concurrency } = message;
  return {
    requestsPerMinute: requestsPerMinute === undefined ? null : Number(requestsPerMinute),
    tokensPerMinute: tokensPerMinute === undefined ? null : Number(tokensPerMinute),
    concurrency: concurrency ?? null,
  };
}

/** `unified.admin.v1.ThresholdService`: administration of thresholds; `Core.open` has authorized the call. */
export function createThresholdService(admin: ThresholdAdmin): RpcService {
  return rpcService(ThresholdService, {
    async createThreshold({ threshold }, ctx) {
      if (threshold === undefined) {
        throw new ServiceError("missing_required_parameter", "'threshold' is required.", { param: "threshold" });
      }
      const { account, apiKeyId, limit, percents } = threshold;
      const standing = await admin.create(
        {
          account,
          apiKeyId,
          metric: known(metrics, threshold.metric, "metric"),
          period: known(periods, threshold.period, "period"),
          limit,
          percents,
          action: known(actions, threshold.action, "action"),
        },
        ctx,
      );
      return create(CreateThresholdResponseSchema, { threshold: thresholdMessage(standing) });
    },
    async listThresholds({ account }) {
      const standings = await admin.list(account);
      return create(ListThresholdsResponseSchema, { thresholds: standings.map(thresholdMessage) });
    },
    async updateThreshold({ id, limit, percents, action }, ctx) {
      const change = { limit, percents: percents?.values, action: known(actions, action, "action") ?? undefined };
      return create(UpdateThresholdResponseSchema, {
        threshold: thresholdMessage(await admin.update(id, change, ctx)),
      });
    },
    async deleteThreshold({ id }, ctx) {
      await admin.remove(id, ctx);
      return create(DeleteThresholdResponseSchema);
    },
  });
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

/** Null when not set. */
function known<E extends number, V>(values: ReadonlyMap<E, V>, value: E, param: string): V | null {
  if (value === 0) return null;
  const found = values.get(value);
  if (found !== undefined) return found;
  throw unknownValue(param, value);
}

function numberOf<E extends number, V>(values: ReadonlyMap<E, V>, wanted: V): E | undefined {
  return [...values].find(([, value]) => value === wanted)?.[0];
}

function thresholdMessage({ threshold, used }: ThresholdProgress): ThresholdMessage {
  const { id, account, apiKeyId, limit, percents, createdAtMs, updatedAtMs } = threshold;
  return create(ThresholdSchema, {
    id,
    account,
    apiKeyId: apiKeyId ?? "",
    metric: numberOf(metrics, threshold.metric) ?? MetricValue.UNSPECIFIED,
    period: numberOf(periods, threshold.period) ?? PeriodValue.UNSPECIFIED,
    limit,
    percents: [...percents],
    action: numberOf(actions, threshold.action) ?? Action.UNSPECIFIED,
    used,
    createdAt: timestampFromMs(createdAtMs),
    updatedAt: timestampFromMs(updatedAtMs),
  });
}

/** Enums are open: a newer client may send an unknown number. */
function unknownValue(param: string, value: number): ServiceError {
  return new ServiceError("invalid_value", `'${param}' has the value ${value}, which this version does not know.`, {
    param,
  });
}
