import type { ServiceLimits } from "../../contract/limits.js";
import type { ModelAdmin } from "../catalog/model-admin.js";
import type { Core } from "../core.js";
import type { LimitsAdmin } from "../metering/limits-admin.js";
import type { ThresholdAdmin } from "../metering/threshold-admin.js";
import type { UsageQuestions } from "../metering/usage-questions.js";
import { type ApiKeyAdmin, createApiKeyService } from "./api-key-service.js";
import { createCatalogService, createInferenceService } from "./inference-service.js";
import { createLimitService, createThresholdService, createUsageService } from "./metering-services.js";
import { createModelAdminService } from "./model-admin-service.js";
import type { RpcService } from "./rpc-service.js";
import { createSessionService, type SessionServiceDeps } from "./session-service.js";
import { createSystemService, type SystemServiceDeps } from "./system-service.js";
import {
  createDeliveryService,
  createWebhookEndpointService,
  type DeliveryAdmin,
  type WebhookEndpointAdmin,
} from "./webhook-services.js";

export interface RpcServicesDeps extends SessionServiceDeps, SystemServiceDeps {
  readonly core: Core;
  readonly apiKeys: ApiKeyAdmin;
  readonly usage: UsageQuestions;
  readonly thresholds: ThresholdAdmin;
  readonly limitsAdmin: LimitsAdmin;
  readonly modelAdmin: ModelAdmin;
  readonly webhookEndpoints: WebhookEndpointAdmin;
  readonly deliveries: DeliveryAdmin;
  readonly limits: Pick<ServiceLimits, "streamBufferBytesMax">;
}

/** All protobuf services of this process, for every RPC transport. */
export function createRpcServices(deps: RpcServicesDeps): readonly RpcService[] {
  const { core, apiKeys, audit, usage, thresholds, limitsAdmin, modelAdmin, limits } = deps;
  const { webhookEndpoints, deliveries } = deps;
  return [
    createInferenceService(core, limits),
    createCatalogService(core),
    createApiKeyService(apiKeys, audit),
    createSessionService(deps),
    createSystemService(deps),
    createUsageService(usage),
    createThresholdService(thresholds),
    createLimitService(limitsAdmin),
    createModelAdminService(modelAdmin, audit),
    createWebhookEndpointService(webhookEndpoints),
    createDeliveryService(deliveries),
  ];
}
