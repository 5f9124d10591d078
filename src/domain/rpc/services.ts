import type { ServiceLimits } from "../../contract/limits.js";
import type { ApiKeys } from "../access/api-keys.js";
import type { ModelAdmin } from "../catalog/model-admin.js";
import type { Core } from "../core.js";
import type { LimitsAdmin } from "../metering/limits-admin.js";
import type { ThresholdAdmin } from "../metering/threshold-admin.js";
import type { UsageQueries } from "../metering/usage-queries.js";
import type { RequestLogs } from "../request-log/request-logs.js";
import type { UpstreamAdmin } from "../upstreams/upstream-admin.js";
import type { UpstreamChecks } from "../upstreams/upstream-checks.js";
import type { Deliveries } from "../webhooks/deliveries.js";
import type { WebhookEndpoints } from "../webhooks/endpoints.js";
import { createApiKeyService } from "./api-key-service.js";
import { createCatalogService, createInferenceService } from "./inference-service.js";
import { createLimitService, createThresholdService, createUsageService } from "./metering-services.js";
import { createModelAdminService } from "./model-admin-service.js";
import { createRequestLogService } from "./request-log-service.js";
import type { RpcService } from "./rpc-service.js";
import { createSessionService, type SessionServiceDeps } from "./session-service.js";
import { createSystemService, type SystemServiceDeps } from "./system-service.js";
import { createUpstreamService } from "./upstream-service.js";
import { createDeliveryService, createWebhookEndpointService } from "./webhook-services.js";

export interface RpcServicesDeps extends SessionServiceDeps, SystemServiceDeps {
  readonly core: Core;
  readonly apiKeys: ApiKeys;
  readonly usage: UsageQueries;
  readonly thresholds: ThresholdAdmin;
  readonly limitsAdmin: LimitsAdmin;
  readonly modelAdmin: ModelAdmin;
  readonly upstreamAdmin: UpstreamAdmin;
  readonly upstreamChecks: UpstreamChecks;
  readonly requestLogs: RequestLogs;
  readonly webhookEndpoints: WebhookEndpoints;
  readonly deliveries: Deliveries;
  readonly limits: Pick<ServiceLimits, "streamBufferBytesMax">;
}

/** All protobuf services of this process, for every RPC transport. */
export function createRpcServices(deps: RpcServicesDeps): readonly RpcService[] {
  const { core, audit, shares } = deps;
  return [
    createInferenceService(core, deps.limits),
    createCatalogService(core),
    createApiKeyService(deps.apiKeys, audit, shares),
    createSessionService(deps),
    createSystemService(deps),
    createUsageService(deps.usage),
    createThresholdService(deps.thresholds),
    createLimitService(deps.limitsAdmin),
    createModelAdminService(deps.modelAdmin, audit),
    createUpstreamService(deps.upstreamAdmin, deps.upstreamChecks),
    createRequestLogService(deps.requestLogs, shares),
    createWebhookEndpointService(deps.webhookEndpoints),
    createDeliveryService(deps.deliveries, shares),
  ];
}
