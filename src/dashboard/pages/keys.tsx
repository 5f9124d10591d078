import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { call } from "../api.js";
import { go, usePlace } from "../location.js";
import { Confirm } from "../ui/action.js";
import { Empty, Loading, Problem } from "../ui/feedback.js";
import { Pager } from "../ui/table.js";
import { slowlyMs, useData } from "../use-data.js";
import { ChangeKey } from "./keys/change-key.js";
import { KeyFilter } from "./keys/key-filter.js";
import { isFiltered, type KeyQuery, listRequest, queryOf } from "./keys/key-query.js";
import { type KeyAction, KeyTable } from "./keys/key-table.js";
import { NewKey } from "./keys/new-key.js";
import { RotateKey } from "./keys/rotate-key.js";
import "./keys/keys.css";

const pageSize = 50;

type Opened = { readonly action: "create" } | { readonly action: KeyAction; readonly apiKey: ApiKeyJson };

/** The API keys, and everything that is done to them. */
export function Keys() {
  const { query: address } = usePlace();
  const query = queryOf(address);
  const { account } = query;
  const pageToken = address.get("page") ?? "";
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.ApiKeyService/ListApiKeys", listRequest(query, pageToken, pageSize), signal),
    [JSON.stringify(query), pageToken],
    slowlyMs,
  );
  const apiKeys = value?.apiKeys ?? [];
  return (
    <div class="stack">
      <div class="row spread bottom">
        <KeyFilter query={query} onFilter={(chosen) => go("keys", { ...chosen }, isFiltered(query))} />
        <button type="button" class="primary" onClick={() => setOpened({ action: "create" })}>
          Create key
        </button>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && apiKeys.length === 0 && <NoKeys query={query} hasMore={value.nextPageToken !== undefined} />}
      {apiKeys.length > 0 && (
        <KeyTable apiKeys={apiKeys} onAction={(action, apiKey) => setOpened({ action, apiKey })} />
      )}
      <Pager
        token={pageToken}
        nextToken={value === null ? null : (value.nextPageToken ?? "")}
        onPage={(page) => go("keys", { ...query, page })}
      />
      {opened !== null && (
        <Window opened={opened} account={account} onChanged={reload} onClose={() => setOpened(null)} />
      )}
    </div>
  );
}

function NoKeys({ query, hasMore }: { readonly query: KeyQuery; readonly hasMore: boolean }) {
  if (hasMore) return <Empty>No key that fits so far. The next page looks further.</Empty>;
  if (isFiltered(query)) return <Empty>No key fits this filter.</Empty>;
  return (
    <Empty>
      There is no key yet. Create one here, or with <code>uis keys create --name my-app --scope read_write</code>.
    </Empty>
  );
}

interface WindowProps {
  readonly opened: Opened;
  readonly account: string;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}

function Window({ opened, account, onChanged, onClose }: WindowProps) {
  switch (opened.action) {
    case "create":
      return <NewKey account={account} onMade={onChanged} onClose={onClose} />;
    case "change":
      return <ChangeKey apiKey={opened.apiKey} onDone={onChanged} onClose={onClose} />;
    case "rotate":
      return <RotateKey apiKey={opened.apiKey} onMade={onChanged} onClose={onClose} />;
    case "revoke":
      return <RevokeKey apiKey={opened.apiKey} onDone={onChanged} onClose={onClose} />;
  }
}

interface RevokeKeyProps {
  readonly apiKey: ApiKeyJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function RevokeKey({ apiKey: { id = "", name = "" }, onDone, onClose }: RevokeKeyProps) {
  const revoke = async (): Promise<void> => {
    await call("unified.admin.v1.ApiKeyService/RevokeApiKey", { id });
    onDone();
  };
  return (
    <Confirm title={`Revoke “${name}”?`} verb="Revoke" run={revoke} onClose={onClose}>
      <p>It is refused from the next request on, and what it streams now ends. This cannot be undone.</p>
    </Confirm>
  );
}
