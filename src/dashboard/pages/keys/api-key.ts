/** API keys as the page needs them: status, list filter, and the form's draft with its requests. */
import type { ApiKeyJson, LimitsJson, PriorityJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type {
  CreateApiKeyRequestJson,
  KeyStateJson,
  ListApiKeysRequestJson,
  UpdateApiKeyRequestJson,
} from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { toInstant, toLocal } from "../../lib/format.js";

export type KeyStatus = "active" | "expired" | "revoked";

export const statusTitles: Readonly<Record<KeyStatus, string>> = {
  active: "Active",
  expired: "Expired",
  revoked: "Revoked",
};

export function keyStatus({ revokedAt, expiresAt }: ApiKeyJson, nowMs: number): KeyStatus {
  if (revokedAt !== undefined) return "revoked";
  return expiresAt !== undefined && new Date(expiresAt).getTime() <= nowMs ? "expired" : "active";
}

/** The list filter, kept in the page's URL; empty values do not filter. */
export interface KeyQuery {
  readonly search: string;
  readonly account: string;
  readonly state: string;
}

const states: Readonly<Record<string, KeyStateJson>> = {
  active: "KEY_STATE_ACTIVE",
  expired: "KEY_STATE_EXPIRED",
  revoked: "KEY_STATE_REVOKED",
} satisfies Record<KeyStatus, KeyStateJson>;

export function queryOf(address: URLSearchParams): KeyQuery {
  const of = (name: string): string => address.get(name) ?? "";
  return { search: of("search"), account: of("account"), state: of("state") in states ? of("state") : "" };
}

export function isFiltered({ search, account, state }: KeyQuery): boolean {
  return search !== "" || account !== "" || state !== "";
}

export function listRequest(query: KeyQuery, pageToken: string, pageSize: number): ListApiKeysRequestJson {
  const state = states[query.state];
  const { search, account } = query;
  return { search, account, pageSize, pageToken, ...(state === undefined ? {} : { state }) };
}

/** A key as typed into the form; empty text means not set. */
export interface KeyDraft {
  readonly name: string;
  readonly scope: "SCOPE_READ" | "SCOPE_READ_WRITE";
  readonly account: string;
  /** Ids and prefixes, separated by spaces, commas or line breaks. */
  readonly models: string;
  readonly requestsPerMinute: string;
  readonly tokensPerMinute: string;
  readonly concurrency: string;
  readonly priority: PriorityJson;
  /** Value of a `datetime-local` input. */
  readonly expiresAt: string;
}

export function emptyDraft(account: string): KeyDraft {
  return { ...draftOf({}), scope: "SCOPE_READ_WRITE", account };
}

export function draftOf(apiKey: ApiKeyJson): KeyDraft {
  const { name = "", scope, account = "", models = [], limits = {}, priority, expiresAt } = apiKey;
  return {
    name,
    scope: scope === "SCOPE_READ_WRITE" ? scope : "SCOPE_READ",
    account,
    models: models.join("\n"),
    requestsPerMinute: limits.requestsPerMinute ?? "",
    tokensPerMinute: limits.tokensPerMinute ?? "",
    concurrency: limits.concurrency === undefined ? "" : String(limits.concurrency),
    priority: priority ?? "PRIORITY_DEFAULT",
    expiresAt: toLocal(expiresAt),
  };
}

export function createRequest(draft: KeyDraft): CreateApiKeyRequestJson {
  const expiresAt = toInstant(draft.expiresAt);
  return {
    name: draft.name.trim(),
    scope: draft.scope,
    account: draft.account.trim(),
    models: modelsOf(draft),
    limits: limitsOf(draft),
    priority: draft.priority,
    ...(expiresAt === null ? {} : { expiresAt }),
  };
}

/** Sends changed fields only, so that an untouched expiry is not rounded to the minute. */
export function updateRequest(id: string, before: KeyDraft, draft: KeyDraft): UpdateApiKeyRequestJson {
  const differs = (...fields: (keyof KeyDraft)[]): boolean => fields.some((field) => before[field] !== draft[field]);
  const expiresAt = toInstant(draft.expiresAt);
  return {
    id,
    ...(differs("name") ? { name: draft.name.trim() } : {}),
    ...(differs("models") ? { models: { models: modelsOf(draft) } } : {}),
    ...(differs("requestsPerMinute", "tokensPerMinute", "concurrency") ? { limits: limitsOf(draft) } : {}),
    ...(differs("priority") ? { priority: draft.priority } : {}),
    ...(differs("expiresAt") ? (expiresAt === null ? { neverExpires: true } : { expiresAt }) : {}),
  };
}

/** The allowed models as a list. */
export function modelsOf({ models }: Pick<KeyDraft, "models">): string[] {
  return models.split(/[\s,]+/).filter((model) => model !== "");
}

function limitsOf({ requestsPerMinute, tokensPerMinute, concurrency }: KeyDraft): LimitsJson {
  return {
    ...(requestsPerMinute === "" ? {} : { requestsPerMinute }),
    ...(tokensPerMinute === "" ? {} : { tokensPerMinute }),
    ...(concurrency === "" ? {} : { concurrency: Number(concurrency) }),
  };
}
