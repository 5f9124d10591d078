import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
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
import { ServiceError } from "../call/service-error.js";
import type { UsageBucket, UsageGroup } from "../metering/usage-query.js";
import type { UsageQuestions } from "../metering/usage-questions.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.UsageService`: an account's own usage by its keys, any account's by the administrator. */
export function createUsageService(questions: UsageQuestions): RpcService {
  return rpcService(UsageService, {
    async queryUsage({ account, startTime, endTime, bucketWidth, groupBy, pageSize, pageToken }, { principal }) {
      const { buckets, next } = await questions.query(principal, {
        account,
        startMs: startTime === undefined ? null : timestampMs(startTime),
        endMs: endTime === undefined ? null : timestampMs(endTime),
        width: widthOf(bucketWidth),
        groupBy: groupBy.map(groupOf),
        limit: pageSize === 0 ? null : pageSize,
        page: pageToken,
      });
      return create(QueryUsageResponseSchema, { buckets: buckets.map(toMessage), nextPageToken: next ?? "" });
    },
    async watchUsage({ account, groupBy }, ctx) {
      const { principal, signal } = ctx;
      ctx.watching();
      const buckets = questions.watch(principal, { account, groupBy: groupBy.map(groupOf) }, signal);
      return { items: toResponses(buckets) };
    },
  });
}

async function* toResponses(buckets: AsyncIterable<UsageBucket>): AsyncGenerator<WatchUsageResponse> {
  for await (const bucket of buckets) yield create(WatchUsageResponseSchema, { bucket: toMessage(bucket) });
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

function unknownValue(param: string, value: number): ServiceError {
  return new ServiceError("invalid_value", `'${param}' has the value ${value}, which this version does not know.`, {
    param,
  });
}

function toMessage({ startMs, endMs, results }: UsageBucket): BucketMessage {
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
