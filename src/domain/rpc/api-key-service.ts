import { create } from "@bufbuild/protobuf";
import { durationMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type ApiKey, ApiKeySchema, Scope as ScopeValue } from "../../../gen/unified/admin/v1/api_key_pb.js";
import {
  ApiKeyService,
  CreateApiKeyResponseSchema,
  GetApiKeyResponseSchema,
  KeyState as KeyStateValue,
  ListApiKeysResponseSchema,
  RevokeApiKeyResponseSchema,
  RotateApiKeyResponseSchema,
  type UpdateApiKeyRequest,
  UpdateApiKeyResponseSchema,
} from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import type { ApiKeys } from "../access/api-keys.js";
import type { Audit } from "../access/audit.js";
import { type ApiKeyRecord, changeDetails, type KeyChange, type KeyState, keyDetails } from "../access/key-store.js";
import type { Scope } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";
import { limitsMessage, limitsOf } from "./metering-services.js";
import { type RpcService, rpcService } from "./rpc-service.js";

export type ApiKeyAdmin = Pick<ApiKeys, "create" | "list" | "get" | "update" | "rotate" | "revoke">;

/** `unified.admin.v1.ApiKeyService`: keys by the administrator, who was checked when the call was opened. */
export function createApiKeyService(apiKeys: ApiKeyAdmin, audit: Pick<Audit, "record">): RpcService {
  return rpcService(ApiKeyService, {
    async createApiKey({ name, scope, account, models, expiresAt, limits }, ctx) {
      const { record, secret } = await apiKeys.create({
        name,
        scope: scopeOf(scope),
        account,
        models,
        limits: limitsOf(limits),
        expiresAtMs: expiresAt === undefined ? null : timestampMs(expiresAt),
      });
      await audit.record(ctx, "api_key.create", record.id, keyDetails(record));
      return create(CreateApiKeyResponseSchema, { apiKey: apiKeyMessage(record), secret });
    },
    async listApiKeys({ account, search, state, pageSize, pageToken }) {
      const question = { account, search, state: stateOf(state), pageSize, pageToken };
      const { records, nextPageToken } = await apiKeys.list(question);
      return create(ListApiKeysResponseSchema, { apiKeys: records.map(apiKeyMessage), nextPageToken });
    },
    async getApiKey({ id }) {
      return create(GetApiKeyResponseSchema, { apiKey: apiKeyMessage(await apiKeys.get(id)) });
    },
    async updateApiKey(request, ctx) {
      const change = changeOf(request);
      const record = await apiKeys.update(request.id, change);
      await audit.record(ctx, "api_key.update", record.id, changeDetails(change));
      return create(UpdateApiKeyResponseSchema, { apiKey: apiKeyMessage(record) });
    },
    async rotateApiKey({ id, overlap, expiresAt }, ctx) {
      const { record, secret, oldExpiresAtMs } = await apiKeys.rotate({
        id,
        overlapMs: overlap === undefined ? null : durationMs(overlap),
        expiresAtMs: expiresAt === undefined ? null : timestampMs(expiresAt),
      });
      const details = { successor: record.id, old_expires_at: new Date(oldExpiresAtMs).toISOString() };
      await audit.record(ctx, "api_key.rotate", id, details);
      return create(RotateApiKeyResponseSchema, {
        apiKey: apiKeyMessage(record),
        secret,
        oldExpiresAt: timestampFromMs(oldExpiresAtMs),
      });
    },
    async revokeApiKey({ id }, ctx) {
      const record = await apiKeys.revoke(id);
      await audit.record(ctx, "api_key.revoke", record.id);
      return create(RevokeApiKeyResponseSchema, { apiKey: apiKeyMessage(record) });
    },
  });
}

/** Only the fields that are set in the request. */
function changeOf({ name, models, limits, expiresAt, neverExpires }: UpdateApiKeyRequest): KeyChange {
  if (neverExpires && expiresAt !== undefined) {
    throw new ServiceError("invalid_value", "'never_expires' and 'expires_at' cannot both be set.", {
      param: "never_expires",
    });
  }
  return {
    ...(name === undefined ? {} : { name }),
    ...(models === undefined ? {} : { models: models.models }),
    ...(limits === undefined ? {} : { limits: limitsOf(limits) }),
    ...(expiresAt === undefined ? {} : { expiresAtMs: timestampMs(expiresAt) }),
    ...(neverExpires ? { expiresAtMs: null } : {}),
  };
}

/** Null when not set. Enums are open: a newer client may send an unknown number. */
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

/** Null when not set. */
function stateOf(value: KeyStateValue): KeyState | null {
  switch (value) {
    case KeyStateValue.UNSPECIFIED:
      return null;
    case KeyStateValue.ACTIVE:
      return "active";
    case KeyStateValue.EXPIRED:
      return "expired";
    case KeyStateValue.REVOKED:
      return "revoked";
    default:
      throw new ServiceError("invalid_value", `'state' has no meaning here: ${String(value)}.`, { param: "state" });
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
    limits: limitsMessage(record.limits),
    createdAt: timestampFromMs(record.createdAtMs),
    ...(record.expiresAtMs === null ? {} : { expiresAt: timestampFromMs(record.expiresAtMs) }),
    ...(record.revokedAtMs === null ? {} : { revokedAt: timestampFromMs(record.revokedAtMs) }),
    ...(record.lastUsedAtMs === null ? {} : { lastUsedAt: timestampFromMs(record.lastUsedAtMs) }),
  });
}
