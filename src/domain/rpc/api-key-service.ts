import { durationMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type Limits,
  Priority as PriorityValue,
  Scope as ScopeValue,
} from "../../../gen/unified/admin/v1/api_key_pb.js";
import {
  ApiKeyService,
  KeyState as KeyStateValue,
  type UpdateApiKeyRequest,
} from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import type { ApiKeys } from "../access/api-keys.js";
import type { Audit } from "../access/audit.js";
import { type ApiKeyRecord, changeDetails, type KeyChange, type KeyState, keyDetails } from "../access/key-store.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import type { KeyPriority, Scope } from "../call/principal.js";
import { type RateLimits, unlimited } from "../call/rate-limits.js";
import { refuse } from "../call/service-error.js";
import { enumNumberOf, enumValueOf, instantOf, type RpcService, rpcService, timestampOf } from "./rpc-service.js";

const scopes: ReadonlyMap<ScopeValue, Scope> = new Map([
  [ScopeValue.READ, "read"],
  [ScopeValue.READ_WRITE, "read_write"],
]);
const priorities: ReadonlyMap<PriorityValue, KeyPriority> = new Map([
  [PriorityValue.INTERACTIVE, "interactive"],
  [PriorityValue.DEFAULT, "default"],
  [PriorityValue.BATCH, "batch"],
]);
const states: ReadonlyMap<KeyStateValue, KeyState> = new Map([
  [KeyStateValue.ACTIVE, "active"],
  [KeyStateValue.EXPIRED, "expired"],
  [KeyStateValue.REVOKED, "revoked"],
]);

/** `unified.admin.v1.ApiKeyService`: management of keys; `Core.open` has authorized the administrator. */
export function createApiKeyService(
  apiKeys: ApiKeys,
  audit: Pick<Audit, "record">,
  { lists }: Pick<FairShares, "lists">,
): RpcService {
  return rpcService(ApiKeyService, {
    async createApiKey({ scope, expiresAt, limits, priority, ...input }, ctx) {
      const { record, secret } = await apiKeys.create({
        ...input,
        scope: enumValueOf(scopes, scope, "scope"),
        limits: limitsOf(limits),
        priority: enumValueOf(priorities, priority, "priority"),
        expiresAtMs: instantOf(expiresAt),
      });
      await audit.record(ctx, "api_key.create", record.id, keyDetails(record));
      return { apiKey: keyFields(record), secret };
    },
    async listApiKeys({ state: stateValue, ...question }, ctx) {
      const state = enumValueOf(states, stateValue, "state");
      const list = () => apiKeys.list({ ...question, state });
      const { records, nextPageToken } = await runInShare(lists, ctx, ctx.signal, list);
      return { apiKeys: records.map(keyFields), nextPageToken };
    },
    async getApiKey({ id }) {
      return { apiKey: keyFields(await apiKeys.get(id)) };
    },
    async updateApiKey(request, ctx) {
      const change = changeOf(request);
      const record = await apiKeys.update(request.id, change);
      await audit.record(ctx, "api_key.update", record.id, changeDetails(change));
      return { apiKey: keyFields(record) };
    },
    async rotateApiKey({ id, overlap, expiresAt }, ctx) {
      const overlapMs = overlap === undefined ? null : durationMs(overlap);
      const rotated = await apiKeys.rotate({ id, overlapMs, expiresAtMs: instantOf(expiresAt) });
      const { record, secret, oldExpiresAtMs } = rotated;
      const details = { successor: record.id, old_expires_at: new Date(oldExpiresAtMs).toISOString() };
      await audit.record(ctx, "api_key.rotate", id, details);
      return { apiKey: keyFields(record), secret, oldExpiresAt: timestampFromMs(oldExpiresAtMs) };
    },
    async revokeApiKey({ id }, ctx) {
      const record = await apiKeys.revoke(id);
      await audit.record(ctx, "api_key.revoke", record.id);
      return { apiKey: keyFields(record) };
    },
  });
}

/** The changes of a key. It contains only the fields that are set in the request. */
function changeOf(request: UpdateApiKeyRequest): KeyChange {
  const { name, models, limits, expiresAt, neverExpires } = request;
  const priority = enumValueOf(priorities, request.priority, "priority");
  if (neverExpires && expiresAt !== undefined) {
    refuse("invalid_value", "never_expires", "'never_expires' and 'expires_at' cannot both be set.");
  }
  return {
    ...(name === undefined ? {} : { name }),
    ...(models === undefined ? {} : { models: models.models }),
    ...(limits === undefined ? {} : { limits: limitsOf(limits) }),
    ...(priority === null ? {} : { priority }),
    ...(expiresAt === undefined && !neverExpires ? {} : { expiresAtMs: instantOf(expiresAt) }),
  };
}

/** Limits of a request, not validated. An absent limit becomes null (no limit of its own). */
export function limitsOf(message: Limits | undefined): RateLimits {
  if (message === undefined) return unlimited;
  const { requestsPerMinute, tokensPerMinute, concurrency } = message;
  return {
    requestsPerMinute: requestsPerMinute === undefined ? null : Number(requestsPerMinute),
    tokensPerMinute: tokensPerMinute === undefined ? null : Number(tokensPerMinute),
    concurrency: concurrency ?? null,
  };
}

/** Fields of a message with limits; unset limits are absent. */
export function limitFields({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits) {
  return {
    requestsPerMinute: requestsPerMinute === null ? undefined : BigInt(requestsPerMinute),
    tokensPerMinute: tokensPerMinute === null ? undefined : BigInt(tokensPerMinute),
    concurrency: concurrency ?? undefined,
  };
}

function keyFields(record: ApiKeyRecord) {
  const { id, name, account, prefix, last4 } = record;
  return {
    id,
    name,
    account,
    scope: enumNumberOf(scopes, record.scope),
    prefix,
    last4,
    models: [...record.models],
    limits: limitFields(record.limits),
    priority: enumNumberOf(priorities, record.priority ?? "default"),
    createdAt: timestampFromMs(record.createdAtMs),
    expiresAt: timestampOf(record.expiresAtMs),
    revokedAt: timestampOf(record.revokedAtMs),
    lastUsedAt: timestampOf(record.lastUsedAtMs),
  };
}
