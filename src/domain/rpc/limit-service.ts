import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
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
import { defaultAccount } from "../access/new-key.js";
import type { LimitOwner } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { LimitReport, LimitsAdmin, LimitTarget } from "../metering/limits-admin.js";
import { limitsMessage, limitsOf } from "./limits-message.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.LimitService`: limits by the administrator, who was checked when the call was opened. */
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
