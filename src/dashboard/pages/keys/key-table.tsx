import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import { wholeNumber } from "../../format.js";
import { Badge } from "../../ui/feedback.js";
import { Moment } from "../../ui/moment.js";
import { type Column, Table } from "../../ui/table.js";
import { keyStatus } from "./key-status.js";

/** What can be done to a key. */
export type KeyAction = "change" | "rotate" | "revoke";

export interface KeyTableProps {
  readonly apiKeys: readonly ApiKeyJson[];
  readonly onAction: (action: KeyAction, apiKey: ApiKeyJson) => void;
}

export function KeyTable({ apiKeys, onAction }: KeyTableProps) {
  const columns: readonly Column<ApiKeyJson>[] = [
    { title: "Name", cell: (apiKey) => <Name apiKey={apiKey} /> },
    { title: "Key", cell: ({ prefix = "", last4 = "" }) => <code class="whole">{`${prefix}…${last4}`}</code> },
    { title: "Account", cell: ({ account }) => account },
    {
      title: "Scope",
      cell: ({ scope }) => <span class="whole">{scope === "SCOPE_READ_WRITE" ? "read, write" : "read"}</span>,
    },
    { title: "Last used", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} none="not yet" /> },
    { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
    { title: "Status", cell: (apiKey) => <Status apiKey={apiKey} /> },
    { title: "", cell: (apiKey) => <Actions apiKey={apiKey} onAction={onAction} /> },
  ];
  return <Table caption="API keys, newest first" columns={columns} rows={apiKeys} keyOf={({ id = "" }) => id} />;
}

function Name({ apiKey: { name, models = [], limits = {} } }: { readonly apiKey: ApiKeyJson }) {
  const { requestsPerMinute, tokensPerMinute, concurrency } = limits;
  const bounds = [
    models.length === 0 ? "" : `only ${models.join(", ")}`,
    requestsPerMinute === undefined ? "" : `${wholeNumber(requestsPerMinute)} requests a minute`,
    tokensPerMinute === undefined ? "" : `${wholeNumber(tokensPerMinute)} tokens a minute`,
    concurrency === undefined ? "" : `${wholeNumber(concurrency)} at once`,
  ].filter((bound) => bound !== "");
  return (
    <div class="key-name">
      <strong>{name}</strong>
      {bounds.length > 0 && <div class="faint">{bounds.join(" · ")}</div>}
    </div>
  );
}

function Status({ apiKey }: { readonly apiKey: ApiKeyJson }) {
  const status = keyStatus(apiKey, Date.now());
  return <Badge tone={status === "active" ? "good" : "plain"}>{status}</Badge>;
}

function Actions({
  apiKey,
  onAction,
}: {
  readonly apiKey: ApiKeyJson;
  readonly onAction: (action: KeyAction, apiKey: ApiKeyJson) => void;
}) {
  if (apiKey.revokedAt !== undefined) return null;
  const button = (action: KeyAction, verb: string) => (
    <button
      type="button"
      class={action === "revoke" ? "danger" : undefined}
      aria-label={`${verb} ${apiKey.name ?? ""}`}
      onClick={() => onAction(action, apiKey)}
    >
      {verb}
    </button>
  );
  return (
    <div class="actions">
      {button("change", "Change")}
      {button("rotate", "Rotate")}
      {button("revoke", "Revoke")}
    </div>
  );
}
