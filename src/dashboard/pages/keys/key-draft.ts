/** A key as its form holds it, and the requests that are made of that. */
import type { ApiKeyJson, LimitsJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type {
  CreateApiKeyRequestJson,
  UpdateApiKeyRequestJson,
} from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { toInstant, toLocal } from "../../local-time.js";

/** All of it texts, as inputs have them; empty: not set. */
export interface KeyDraft {
  readonly name: string;
  readonly scope: "SCOPE_READ" | "SCOPE_READ_WRITE";
  readonly account: string;
  /** Ids and prefixes, with spaces, commas or lines between them. */
  readonly models: string;
  readonly requestsPerMinute: string;
  readonly tokensPerMinute: string;
  readonly concurrency: string;
  /** Of an input of the kind `datetime-local`. */
  readonly expiresAt: string;
}

export function emptyDraft(account: string): KeyDraft {
  return { ...draftOf({}), scope: "SCOPE_READ_WRITE", account };
}

export function draftOf({ name = "", scope, account = "", models = [], limits = {}, expiresAt }: ApiKeyJson): KeyDraft {
  return {
    name,
    scope: scope === "SCOPE_READ_WRITE" ? scope : "SCOPE_READ",
    account,
    models: models.join("\n"),
    requestsPerMinute: limits.requestsPerMinute ?? "",
    tokensPerMinute: limits.tokensPerMinute ?? "",
    concurrency: limits.concurrency === undefined ? "" : String(limits.concurrency),
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
    ...(expiresAt === null ? {} : { expiresAt }),
  };
}

/** Names only what differs, so that an expiry that nobody touched is not rounded to its minute. */
export function updateRequest(id: string, before: KeyDraft, draft: KeyDraft): UpdateApiKeyRequestJson {
  const differs = (...fields: (keyof KeyDraft)[]): boolean => fields.some((field) => before[field] !== draft[field]);
  const expiresAt = toInstant(draft.expiresAt);
  return {
    id,
    ...(differs("name") ? { name: draft.name.trim() } : {}),
    ...(differs("models") ? { models: { models: modelsOf(draft) } } : {}),
    ...(differs("requestsPerMinute", "tokensPerMinute", "concurrency") ? { limits: limitsOf(draft) } : {}),
    ...(differs("expiresAt") ? (expiresAt === null ? { neverExpires: true } : { expiresAt }) : {}),
  };
}

function modelsOf({ models }: KeyDraft): string[] {
  return models.split(/[\s,]+/).filter((model) => model !== "");
}

function limitsOf({ requestsPerMinute, tokensPerMinute, concurrency }: KeyDraft): LimitsJson {
  return {
    ...(requestsPerMinute === "" ? {} : { requestsPerMinute }),
    ...(tokensPerMinute === "" ? {} : { tokensPerMinute }),
    ...(concurrency === "" ? {} : { concurrency: Number(concurrency) }),
  };
}
