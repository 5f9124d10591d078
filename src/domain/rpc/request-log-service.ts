import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  RequestLogService,
  type WatchRequestLogsResponse,
  WatchRequestLogsResponseSchema,
} from "../../../gen/unified/admin/v1/request_log_service_pb.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import type { ClientLabels } from "../call/observer.js";
import type { RequestRecord } from "../request-log/request-log-store.js";
import type { RequestLogs } from "../request-log/request-logs.js";
import { instantOf, type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.RequestLogService`; `Core.open` has authorized the administrator. */
export function createRequestLogService(requestLogs: RequestLogs, { lists }: Pick<FairShares, "lists">): RpcService {
  return rpcService(RequestLogService, {
    async listRequestLogs(request, ctx) {
      const list = () => requestLogs.list({ ...request, ...arrivalsOf(request) }, ctx.signal);
      const { records, nextPageToken } = await runInShare(lists, ctx, ctx.signal, list);
      const { keep, keepsContent: keepContent } = requestLogs;
      return { requestLogs: records.map(requestFields), nextPageToken, keep, keepContent };
    },
    async getRequestLog({ id }) {
      const { record, content } = await requestLogs.get(id);
      const fields = requestFields(record);
      return {
        requestLog: content === null ? fields : { ...fields, content: { ...content, answers: [...content.answers] } },
      };
    },
    async watchRequestLogs(request, ctx) {
      ctx.watching();
      const question = { ...request, ...arrivalsOf(request) };
      return { items: toResponses(requestLogs.watch(question, request.recent, ctx.signal)) };
    },
  });
}

async function* toResponses(
  batches: AsyncIterable<readonly RequestRecord[]>,
): AsyncGenerator<WatchRequestLogsResponse> {
  for await (const records of batches) {
    yield create(WatchRequestLogsResponseSchema, { requestLogs: records.map(requestFields) });
  }
}

function arrivalsOf({ from, to }: { readonly from?: Timestamp | undefined; readonly to?: Timestamp | undefined }) {
  return { fromMs: instantOf(from), toMs: instantOf(to) };
}

function requestFields(record: RequestRecord) {
  const { labels, firstTokenMs, ...fields } = record;
  return {
    ...fields,
    apiKeyId: record.keyId ?? "",
    model: record.model ?? "",
    fallbackModel: record.fallbackModel ?? "",
    receivedAt: timestampFromMs(record.receivedAtMs),
    ...(firstTokenMs === null ? {} : { firstTokenMs }),
    promptTokens: BigInt(record.promptTokens),
    completionTokens: BigInt(record.completionTokens),
    cachedTokens: BigInt(record.cachedTokens),
    costNanoDollars: BigInt(record.costNano),
    tries: [...record.tries],
    clientRequestId: record.clientRequestId ?? "",
    traceId: record.traceId ?? "",
    labels: labels === null ? {} : labelFields(labels),
  };
}

function labelFields({ user, safetyIdentifier, promptCacheKey, metadata = {} }: ClientLabels): Record<string, string> {
  const own = { user, safety_identifier: safetyIdentifier, prompt_cache_key: promptCacheKey };
  const more = Object.entries(metadata).map(([name, value]) => [`metadata.${name}`, value]);
  const present = Object.entries(own).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...present, ...more]);
}
