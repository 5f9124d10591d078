import type { RequestLogJson } from "../../../../gen/unified/admin/v1/request_log_pb.js";
import { call } from "../../lib/api.js";
import { dollars, milliseconds } from "../../lib/format.js";
import { go, PageLink, useLocation } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { CodeBlock } from "../../ui/code.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { Select } from "../../ui/form.js";
import type { Choice } from "../../ui/picker/choice.js";
import { useAccountChoices, useKeyChoices, useModelChoices } from "../../ui/picker/known.js";
import { Picker } from "../../ui/picker/picker.js";
import { type Column, Pager, Table } from "../../ui/table.js";
import { Tabs } from "../../ui/tabs.js";
import { Moment } from "../../ui/values.js";
import { isFiltered, listRequest, queryOf, type RequestQuery, ranges, resultOf, tokensOf, toneOf } from "./request.js";
import { RequestView } from "./request-view.js";
import "./requests.css";

/** The list of requests, or one of them with `?id=`. */
export function Requests() {
  const id = useLocation().query.get("id") ?? "";
  return id === "" ? <RequestList /> : <RequestView key={id} id={id} />;
}

const pageSize = 50;
const refreshMs = 5_000;

function RequestList() {
  const { query: address } = useLocation();
  const query = queryOf(address);
  const pageToken = address.get("page") ?? "";
  const keys = useKeyChoices(query.account);
  const { value, error, reload } = useData(
    (signal) =>
      call(
        "unified.admin.v1.RequestLogService/ListRequestLogs",
        listRequest(query, pageToken, pageSize, Date.now()),
        signal,
      ),
    [JSON.stringify(query), pageToken],
    pageToken === "" ? refreshMs : null,
  );
  if (value !== null && (value.keep ?? 0) === 0) return <TurnedOff />;
  const requests = value?.requestLogs ?? [];
  return (
    <div class="stack">
      <RequestFilter query={query} keys={keys} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && requests.length === 0 && (
        <Empty>
          {isFiltered(query) || pageToken !== ""
            ? "No requests match this filter."
            : "No requests yet. Each appears here about a second after its end."}
        </Empty>
      )}
      {requests.length > 0 && <RequestTable requests={requests} query={query} keys={keys ?? []} />}
      <Pager
        token={pageToken}
        nextToken={value === null ? null : (value.nextPageToken ?? "")}
        onPage={(page) => go("requests", { ...query, page })}
      />
    </div>
  );
}

function TurnedOff() {
  return (
    <Empty
      title="The request log is off"
      icon="requests"
      action={<CodeBlock title="uis.yaml" code={"requests:\n  keep: 10000"} />}
    >
      It keeps the last requests with their timings, tokens, cost and errors. Add this to the configuration and restart
      the service. Prompts and answers are kept only with <code>keep_content: true</code>.
    </Empty>
  );
}

interface RequestFilterProps {
  readonly query: RequestQuery;
  readonly keys: readonly Choice[] | null;
}

function RequestFilter({ query, keys }: RequestFilterProps) {
  const models = useModelChoices();
  const accounts = useAccountChoices();
  const set = (change: Partial<RequestQuery>): void => go("requests", { ...query, ...change });
  const tab = (title: string, code: string) => ({ title, query: { ...query, code }, isCurrent: query.code === code });
  const ofCode =
    query.code === "" || query.code === "ok" || query.code === "error" ? [] : [tab(query.code, query.code)];
  return (
    <search class="stack">
      <Tabs
        label="Result"
        page="requests"
        tabs={[tab("All", ""), tab("Succeeded", "ok"), tab("Failed", "error"), ...ofCode]}
      />
      <div class="request-filter">
        <Picker
          label="Model"
          none="All models"
          choices={models}
          acceptsOther
          value={query.model}
          onChange={(model) => set({ model })}
        />
        <Picker
          label="Account"
          none="All accounts"
          choices={accounts}
          acceptsOther
          value={query.account}
          onChange={(account) => set({ account, key: "" })}
        />
        <Picker
          label="API key"
          none="All keys"
          choices={keys}
          acceptsOther
          value={query.key}
          onChange={(key) => set({ key })}
        />
        <Select label="Received" titles={ranges} value={query.range} onChoose={(range) => set({ range })} />
      </div>
    </search>
  );
}

interface RequestTableProps {
  readonly requests: readonly RequestLogJson[];
  /** Kept in the URL of a request, so that its back link leads to the same list. */
  readonly query: RequestQuery;
  /** Keys to show by name; others are shown by id. */
  readonly keys: readonly Choice[];
}

function RequestTable({ requests, query, keys }: RequestTableProps) {
  const names = new Map(keys.map(({ value, label }) => [value, label ?? value]));
  const columns: readonly Column<RequestLogJson>[] = [
    {
      title: "Model",
      cell: (request) => <RequestLink request={request} query={query} />,
    },
    { title: "Received", cell: ({ receivedAt }) => <Moment at={receivedAt} /> },
    {
      title: "Result",
      cell: (request) => <Badge tone={toneOf(request.code ?? "")}>{resultOf(request)}</Badge>,
    },
    {
      title: "API key",
      cell: ({ apiKeyId = "", account = "default" }) => (
        <>
          {apiKeyId === "" ? "Administrator" : (names.get(apiKeyId) ?? apiKeyId)}
          {account !== "default" && <div class="faint">{account}</div>}
        </>
      ),
    },
    {
      title: "First token",
      isNumber: true,
      cell: ({ firstTokenMs }) =>
        firstTokenMs === undefined ? <span class="faint">–</span> : <Whole>{milliseconds(firstTokenMs)}</Whole>,
    },
    { title: "Duration", isNumber: true, cell: ({ durationMs }) => <Whole>{milliseconds(durationMs)}</Whole> },
    { title: "Tokens", isNumber: true, cell: (request) => <Whole>{tokensOf(request)}</Whole> },
    { title: "Cost", isNumber: true, cell: ({ costNanoDollars }) => dollars(costNanoDollars) },
  ];
  return <Table caption="Requests, newest first" columns={columns} rows={requests} keyOf={({ id = "" }) => id} />;
}

/** Text without line breaks. */
function Whole({ children }: { readonly children: string }) {
  return <span class="whole">{children}</span>;
}

function RequestLink({ request, query }: { readonly request: RequestLogJson; readonly query: RequestQuery }) {
  const { id = "", model = "", fallbackModel = "", operation = "", attempts = 0 } = request;
  const title = model === "" ? "Unknown model" : model;
  const notes = [operation, ...(fallbackModel === "" ? [] : [`answered by ${fallbackModel}`])];
  if (attempts > 1) notes.push(`${attempts} attempts`);
  return (
    <>
      <PageLink page="requests" query={{ ...query, id }} label={`${title}, request ${id}`}>
        {title}
      </PageLink>
      <div class="faint">{notes.join(", ")}</div>
    </>
  );
}
