import type { AuditRecordJson } from "../../../gen/unified/admin/v1/audit_pb.js";
import { call } from "../api.js";
import { time } from "../format.js";
import { go, usePlace } from "../location.js";
import { Badge, Empty, Loading, Problem } from "../ui/feedback.js";
import { type Column, Pager, Table } from "../ui/table.js";
import { slowlyMs, useData } from "../use-data.js";
import { Details } from "./audit/details.js";
import { Sessions } from "./audit/sessions.js";
import { whoDid } from "./audit/who-did.js";
import "./audit/audit.css";

const pageSize = 50;

/** Who is signed in, and what administrators have done. */
export function AuditPage() {
  return (
    <div class="stack audit-parts">
      <Sessions />
      <Records />
    </div>
  );
}

function Records() {
  const pageToken = usePlace().query.get("page") ?? "";
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.SystemService/ListAuditRecords", { pageSize, pageToken }, signal),
    [pageToken],
    slowlyMs,
  );
  const records = value?.records ?? [];
  return (
    <section class="stack" aria-labelledby="acts">
      <div>
        <h2 id="acts">Administrative acts</h2>
        <small>The newest first, each kept for 400 days. None of them holds a secret.</small>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && records.length === 0 && <Empty>Nothing has been done yet.</Empty>}
      {records.length > 0 && (
        <Table caption="Administrative acts" columns={columns} rows={records} keyOf={({ id = "" }) => id} />
      )}
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
    title: "When",
    cell: ({ at }) => (
      <time class="whole" dateTime={at}>
        {time(at)}
      </time>
    ),
  },
  { title: "Who", cell: (record) => <Who record={record} /> },
  { title: "What", cell: (record) => <What record={record} /> },
  {
    title: "Result",
    cell: ({ result = "" }) => <Badge tone={result === "ok" ? "good" : "bad"}>{result}</Badge>,
  },
  { title: "Details", cell: ({ details = {} }) => <Details details={details} /> },
];

function What({ record: { action, target = "" } }: { readonly record: AuditRecordJson }) {
  return (
    <div class="audit-what">
      <code>{action}</code>
      {target !== "" && (
        <div class="faint">
          <code>{target}</code>
        </div>
      )}
    </div>
  );
}

function Who({ record: { actorKind, actorId = "", address = "" } }: { readonly record: AuditRecordJson }) {
  return (
    <div class="audit-who">
      {whoDid(actorKind)}
      {address !== "" && ` from ${address}`}
      {actorId !== "" && (
        <div class="faint">
          <code>{actorId}</code>
        </div>
      )}
    </div>
  );
}
