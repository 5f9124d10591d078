import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type ApiKey, ApiKeySchema, Scope as ScopeValue } from "../../../gen/unified/admin/v1/api_key_pb.js";
import {
  ApiKeyService,
  CreateApiKeyResponseSchema,
  ListApiKeysResponseSchema,
  RevokeApiKeyResponseSchema,
} from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import type { ApiKeys } from "../access/api-keys.js";
import type { ApiKeyRecord } from "../access/key-store.js";
import type { Scope } from "../access/principal.js";
import { ServiceError } from "../service-error.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.admin.v1.ApiKeyService`: keys by the administrator, who was checked when the call was opened. */
export function createApiKeyService(apiKeys: Pick<ApiKeys, "create" | "list" | "revoke">): RpcService {
  return rpcService(ApiKeyService, {
    async createApiKey({ name, scope, account, models, expiresAt, limits }) {
      if (limits !== undefined) {
        throw new ServiceError("unsupported_parameter", "'limits' of a key are not supported yet: leave it out.", {
          param: "limits",
        });
      }
      const { record, secret } = await apiKeys.create({
        name,
        scope: scopeOf(scope),
        account,
        models,
        expiresAtMs: expiresAt === undefined ? null : timestampMs(expiresAt),
      });
      return create(CreateApiKeyResponseSchema, { apiKey: apiKeyMessage(record), secret });
    },
    async listApiKeys({ account, pageSize, pageToken }) {
      const { records, nextPageToken } = await apiKeys.list({ account, pageSize, pageToken });
      return create(ListApiKeysResponseSchema, { apiKeys: records.map(apiKeyMessage), nextPageToken });
    },
    async revokeApiKey({ id }) {
      return create(RevokeApiKeyResponseSchema, { apiKey: apiKeyMessage(await apiKeys.revoke(id)) });
    },
  });
}

/** Null when the request names none. Enums are open: a newer client may send a number that is not known here. */
function scopeOf(value: ScopeValue): Scope | null {
  switch (value) {
    case ScopeValue.UNSPECIFIED:
      return null;
    case ScopeValue.READ:
      return "read";
    case ScopeValue.READ_WRITE:
      return "read_write";
    default:
      throw new ServiceError("invalid_value", `'scope' must be SCOPE_READ or SCOPE_READ_WRITE, not ${String(value)}.`, {
        param: "scope",
      });
  }
}

function apiKeyMessage(record: ApiKeyRecord): ApiKey {
  const { id, name, account, prefix, last4 } = record;
  return create(ApiKeySchema, {
    id,
    name,
    account,
    scope: record.scope === "read" ? ScopeValue.READ : ScopeValue.READ_WRITE,
    prefix,
    last4,
    models: [...record.models],
    createdAt: timestampFromMs(record.createdAtMs),
    ...(record.expiresAtMs === null ? {} : { expiresAt: timestampFromMs(record.expiresAtMs) }),
    ...(record.revokedAtMs === null ? {} : { revokedAt: timestampFromMs(record.revokedAtMs) }),
    ...(record.lastUsedAtMs === null ? {} : { lastUsedAt: timestampFromMs(record.lastUsedAtMs) }),
  });
}
