/** Models, keys, accounts and endpoints of the service as choices of pickers. Null until they are read, also after an error. */
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import { call } from "../../lib/api.js";
import { useData } from "../../lib/use-data.js";
import type { Choice } from "./choice.js";

/** Models that requests can name. */
export function useModelChoices(): readonly Choice[] | null {
  const { value } = useData((signal) => call("unified.catalog.v1.CatalogService/ListModels", {}, signal), []);
  return value === null ? null : (value.models ?? []).map(({ id = "" }) => ({ value: id }));
}

/** Beyond this many keys, pickers accept typed ids and accounts only. */
const keysMax = 1_000;

function useApiKeys(account: string): readonly ApiKeyJson[] | null {
  const { value } = useData(
    (signal) => call("unified.admin.v1.ApiKeyService/ListApiKeys", { account, pageSize: keysMax }, signal),
    [account],
  );
  return value === null ? null : (value.apiKeys ?? []);
}

/** API keys of `account` or, if it is empty, of all accounts, newest first. */
export function useKeyChoices(account: string): readonly Choice[] | null {
  const keys = useApiKeys(account);
  if (keys === null) return null;
  return keys.map(({ id = "", name = "", prefix = "", last4 = "" }) => ({
    value: id,
    label: name,
    detail: `${prefix}…${last4}`,
  }));
}

/** Accounts that have an API key, and the default one, in alphabetical order. */
export function useAccountChoices(): readonly Choice[] | null {
  const keys = useApiKeys("");
  if (keys === null) return null;
  const names = new Set(["default", ...keys.map(({ account = "default" }) => account)]);
  return [...names].sort().map((value) => ({ value }));
}

/** Webhook endpoints of an account; empty: the default one. */
export function useEndpointChoices(account: string): readonly Choice[] | null {
  const { value } = useData(
    (signal) => call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account }, signal),
    [account],
  );
  return value === null
    ? null
    : (value.webhookEndpoints ?? []).map(({ id = "", url = "" }) => ({ value: id, label: url, detail: id }));
}
