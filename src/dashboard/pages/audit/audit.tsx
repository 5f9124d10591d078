import type { AuditActorKindJson, AuditRecordJson } from "../../../../gen/unified/admin/v1/audit_pb.js";
import { call } from "../../lib/api.js";
import { time } from "../../lib/format.js";
import { go, useLocation } from "../../lib/location.js";
import { slowRefreshMs, useData } from "../../lib/use-data.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Pager, Table } from "../../ui/table.js";
import { Sessions } from "./sessions.js";
import "./audit.css";

const pageSize = 50;

/** Active sessions and the audit log. */
export function Audit() {
  return (
    <div class="stack audit-parts">
      <Sessions />
      <AuditLog />
    </div>
  );
}

function AuditLog() {
  const pageToken = useLocation().query.get("page") ?? "";
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.SystemService/ListAuditRecords", { pageSize, pageToken }, signal),
    [pageToken],
    slowRefreshMs,
  );
  const records = value?.records ?? [];
  return (
    <section class="stack" aria-labelledby="audit-log">
      <div>
        <h2 id="audit-log">Audit log</h2>
        <small>Newest first, kept for 400 days. Records never contain secrets.</small>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && records.length === 0 && <Empty>No audit records yet.</Empty>}
      {records.length > 0 && <Table caption="Audit log" columns={columns} rows={records} keyOf={({ id = "" }) => id} />}
      <Pager
        token={pageToken}
        nextToken={value === null ? null : (value.nextPageToken ?? "")}
        onPage={(page) => go("audit", { page })}
      />
    </section>
  );
}

const columns: readonly Column<AuditRecordJson>[] = [
  {
    title: "Time",
    cell: ({ at }) => (
      <time class="whole" dateTime={at}>
        {time(at)}
      </time>
    ),
  },
  { title: "Actor", cell: (record) => <Actor record={record} /> },
  { title: "Action", cell: (record) => <Action record={record} /> },
  {
    title: "Result",
    cell: ({ result = "" }) => <Badge tone={result === "ok" ? "good" : "bad"}>{result === "ok" ? "OK" : result}</Badge>,
  },
  { title: "Details", cell: ({ details = {} }) => <Details details={details} /> },
];

const actors: Readonly<Record<AuditActorKindJson, string>> = {
  AUDIT_ACTOR_KIND_UNSPECIFIED: "Unknown",
  AUDIT_ACTOR_KIND_ADMIN_TOKEN: "Admin token",
  AUDIT_ACTOR_KIND_SESSION: "Session",
  AUDIT_ACTOR_KIND_API_KEY: "API key",
  AUDIT_ACTOR_KIND_SYSTEM: "System",
  AUDIT_ACTOR_KIND_NOBODY: "Not signed in",
};

function Actor({ record: { actorKind, actorId = "", address = "" } }: { readonly record: AuditRecordJson }) {
  return (
    <div class="audit-actor lines">
      {actors[actorKind ?? "AUDIT_ACTOR_KIND_UNSPECIFIED"]}
      {address !== "" && ` from ${address}`}
      {actorId !== "" && (
        <div class="faint">
          <code>{actorId}</code>
        </div>
      )}
    </div>
  );
}

function Action({ record: { action, target = "" } }: { readonly record: AuditRecordJson }) {
  return (
    <div class="audit-action lines">
      <code>{action}</code>
      {target !== "" && (
        <div class="faint">
          <code>{target}</code>
        </div>
      )}
    </div>
  );
}

/** The changed settings by name, collapsed at first. */
function Details({ details }: { readonly details: Readonly<Record<string, string>> }) {
  const entries = Object.entries(details).filter(([, text]) => text !== "");
  if (entries.length === 0) return <span class="faint">–</span>;
  return (
    <details class="audit-details">
      <summary>{entries.length === 1 ? "1 detail" : `${entries.length} details`}</summary>
      <dl>
        {entries.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
