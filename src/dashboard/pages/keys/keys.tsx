import { AdminOnly } from "../../ui/admin-only.js";
import "./keys.css";
import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { go, useLocation } from "../../lib/location.js";
import { slowRefreshMs, useData } from "../../lib/use-data.js";
import { Confirm } from "../../ui/action.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { RowMenu } from "../../ui/menu.js";
import { type Column, Pager, Table } from "../../ui/table.js";
import { Moment } from "../../ui/values.js";
import { isFiltered, type KeyQuery, keyStatus, listRequest, queryOf, statusTitles } from "./api-key.js";
import { EditKey, NewKey, RotateKey } from "./key-dialogs.js";
import { KeyFilter } from "./key-filter.js";

const pageSize = 50;

type Opened = { readonly action: "create" } | { readonly action: KeyAction; readonly apiKey: ApiKeyJson };

/** Lists API keys; creates, edits, rotates and revokes them. */
export function Keys() {
  const { query: address } = useLocation();
  const query = queryOf(address);
  const { account } = query;
  const pageToken = address.get("page") ?? "";
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.ApiKeyService/ListApiKeys", listRequest(query, pageToken, pageSize), signal),
    [JSON.stringify(query), pageToken],
    slowRefreshMs,
  );
  const apiKeys = value?.apiKeys ?? [];
  return (
    <div class="stack">
      <div class="row spread bottom">
        <KeyFilter query={query} onFilter={(chosen) => go("keys", { ...chosen }, isFiltered(query))} />
        <AdminOnly>
          <button type="button" class="primary" onClick={() => setOpened({ action: "create" })}>
            Create key
          </button>
        </AdminOnly>
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
        <KeyDialog opened={opened} account={account} onChanged={reload} onClose={() => setOpened(null)} />
      )}
    </div>
  );
}

function NoKeys({ query, hasMore }: { readonly query: KeyQuery; readonly hasMore: boolean }) {
  if (hasMore) return <Empty>No matches on this page. The next page continues the search.</Empty>;
  if (isFiltered(query)) return <Empty>No keys match this filter.</Empty>;
  return (
    <Empty>
      No keys yet. Create one here, or with <code>uis keys create --name my-app --scope read_write</code>.
    </Empty>
  );
}

interface KeyDialogProps {
  readonly opened: Opened;
  readonly account: string;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}

function KeyDialog({ opened, account, onChanged, onClose }: KeyDialogProps) {
  switch (opened.action) {
    case "create":
      return <NewKey account={account} onCreated={onChanged} onClose={onClose} />;
    case "edit":
      return <EditKey apiKey={opened.apiKey} onDone={onChanged} onClose={onClose} />;
    case "rotate":
      return <RotateKey apiKey={opened.apiKey} onCreated={onChanged} onClose={onClose} />;
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
      <p>New requests with this key are rejected, and its active streams end. This cannot be undone.</p>
    </Confirm>
  );
}

type KeyAction = "edit" | "rotate" | "revoke";

interface KeyTableProps {
  readonly apiKeys: readonly ApiKeyJson[];
  readonly onAction: (action: KeyAction, apiKey: ApiKeyJson) => void;
}

function KeyTable({ apiKeys, onAction }: KeyTableProps) {
  const columns: readonly Column<ApiKeyJson>[] = [
    { title: "Name", cell: (apiKey) => <Name apiKey={apiKey} /> },
    { title: "Key", cell: ({ prefix = "", last4 = "" }) => <code class="whole">{`${prefix}…${last4}`}</code> },
    { title: "Account", cell: ({ account }) => account },
    {
      title: "Scope",
      cell: ({ scope }) => <span class="whole">{scope === "SCOPE_READ_WRITE" ? "Read and write" : "Read only"}</span>,
    },
    { title: "Last used", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
    { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
    { title: "Status", cell: (apiKey) => <Status apiKey={apiKey} /> },
    { title: "", cell: (apiKey) => <Actions apiKey={apiKey} onAction={onAction} /> },
  ];
  return <Table caption="API keys, newest first" columns={columns} rows={apiKeys} keyOf={({ id = "" }) => id} />;
}

function Name({ apiKey: { name, models = [], limits = {} } }: { readonly apiKey: ApiKeyJson }) {
  const { requestsPerMinute, tokensPerMinute, concurrency } = limits;
  const restrictions = [
    models.length === 0 ? "" : `Models: ${models.join(", ")}`,
    requestsPerMinute === undefined ? "" : `${wholeNumber(requestsPerMinute)} requests/min`,
    tokensPerMinute === undefined ? "" : `${wholeNumber(tokensPerMinute)} tokens/min`,
    concurrency === undefined ? "" : `Max concurrency ${wholeNumber(concurrency)}`,
  ].filter((restriction) => restriction !== "");
  return (
    <div class="key-name">
      <strong>{name}</strong>
      {restrictions.length > 0 && <div class="faint">{restrictions.join(" · ")}</div>}
    </div>
  );
}

function Status({ apiKey }: { readonly apiKey: ApiKeyJson }) {
  const status = keyStatus(apiKey, Date.now());
  return <Badge tone={status === "active" ? "good" : "plain"}>{statusTitles[status]}</Badge>;
}

function Actions({ apiKey, onAction }: Pick<KeyTableProps, "onAction"> & { readonly apiKey: ApiKeyJson }) {
  if (apiKey.revokedAt !== undefined) return null;
  const items = [
    { label: "Edit", icon: "edit", onSelect: () => onAction("edit", apiKey) },
    { label: "Rotate", icon: "refresh", onSelect: () => onAction("rotate", apiKey) },
    { label: "Revoke", icon: "trash", isDanger: true, onSelect: () => onAction("revoke", apiKey) },
  ] as const;
  return <RowMenu label={`Actions of ${apiKey.name ?? ""}`} items={items} />;
}
