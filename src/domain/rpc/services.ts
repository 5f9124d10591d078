import type { ServiceLimits } from "../../contract/limits.js";
import type { ApiKeys } from "../access/api-keys.js";
import type { ModelAdmin } from "../catalog/model-admin.js";
import type { Core } from "../core.js";
import { createApiKeyService } from "./api-key-service.js";
import { createCatalogService } from "./catalog-service.js";
import { createInferenceService } from "./inference-service.js";
import { createModelAdminService } from "./model-admin-service.js";
import type { RpcService } from "./rpc-service.js";

export interface RpcServicesDeps {
  readonly core: Core;
  readonly apiKeys: Pick<ApiKeys, "create" | "list" | "revoke">;
  readonly modelAdmin: ModelAdmin;
  readonly limits: Pick<ServiceLimits, "streamBufferBytesMax">;
}

/** Every protobuf service of this process, written once for all RPC doors. */
export function createRpcServices({ core, apiKeys, modelAdmin, limits }: RpcServicesDeps): readonly RpcService[] {
  return [
    createInferenceService(core, limits.streamBufferBytesMax),
    createCatalogService(core),
    createApiKeyService(apiKeys),
    createModelAdminService(modelAdmin),
  ];
}
