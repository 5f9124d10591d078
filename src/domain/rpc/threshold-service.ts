import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Action,
  type Threshold as Message,
  Metric as MetricValue,
  Period as PeriodValue,
  ThresholdSchema,
} from "../../../gen/unified/admin/v1/threshold_pb.js";
import {
  CreateThresholdResponseSchema,
  DeleteThresholdResponseSchema,
  ListThresholdsResponseSchema,
  ThresholdService,
  UpdateThresholdResponseSchema,
} from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import { ServiceError } from "../call/service-error.js";
import type { Metric, PeriodKind, Threshold } from "../events/threshold.js";
import type { ThresholdAdmin, ThresholdStanding } from "../metering/threshold-admin.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.ThresholdService`: by the administrator, who was checked when the call was opened. */
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
      return create(CreateThresholdResponseSchema, { threshold: toMessage(standing) });
    },
    async listThresholds({ account }) {
      const standings = await admin.list(account);
      return create(ListThresholdsResponseSchema, { thresholds: standings.map(toMessage) });
    },
    async updateThreshold({ id, limit, percents, action }, ctx) {
      const change = { limit, percents: percents?.values, action: known(actions, action, "action") ?? undefined };
      return create(UpdateThresholdResponseSchema, { threshold: toMessage(await admin.update(id, change, ctx)) });
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

/** Null when the request says nothing. Enums are open: a newer client may send a number that is not known here. */
function known<E extends number, V>(values: ReadonlyMap<E, V>, value: E, param: string): V | null {
  if (value === 0) return null;
  const found = values.get(value);
  if (found !== undefined) return found;
  throw new ServiceError("invalid_value", `'${param}' has the value ${value}, which this version does not know.`, {
    param,
  });
}

function numberOf<E extends number, V>(values: ReadonlyMap<E, V>, wanted: V): E | undefined {
  return [...values].find(([, value]) => value === wanted)?.[0];
}

function toMessage({ threshold, used }: ThresholdStanding): Message {
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
