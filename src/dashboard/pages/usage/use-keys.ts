import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import { call } from "../../api.js";
import { slowlyMs, useData } from "../../use-data.js";

const pageSize = 1_000;

/** The keys of an account, the first 1,000: to call them by their names. Whoever is not among them goes by its id. */
export function useKeys(account: string): readonly ApiKeyJson[] {
  const { value } = useData(
    (signal) => call("unified.admin.v1.ApiKeyService/ListApiKeys", { account, pageSize }, signal),
    [account],
    slowlyMs,
  );
  return value?.apiKeys ?? [];
}

/** What a key is called: its name; without one its id. */
export function keyNames(keys: readonly ApiKeyJson[]): (id: string) => string {
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  return (id) => (id === "" ? "without a key" : (names.get(id) ?? id));
}
